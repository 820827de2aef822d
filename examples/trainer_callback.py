"""One callback watches a Hugging Face Trainer without disturbing it: the weights end up the same,
bit for bit.

A tiny GPT-2 with random weights learns a rhyme twice, with the callback and without. Needs `pip
install '.[torch,text]'`.
"""

import sys
import tempfile

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

import saccade

small = "--small" in sys.argv
torch.set_num_threads(1)  # so small a model loses more by sharing its work than it gains

# %% A text and a tokenizer of its words; for your own run take those you train with.
rhyme = "the cat sat on the mat and the dog sat on the cat and the mat sat on the dog and the cat sat on the log"
text = rhyme.split()
names = {word: number for number, word in enumerate(["<pad>", *sorted(set(text))])}
backend = Tokenizer(models.WordLevel(names, unk_token="<pad>"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>")
length = 12
windows = [" ".join(text[i : i + length]) for i in range(len(text) - length + 1)]
data = [{"input_ids": row, "labels": row} for row in tokenizer(windows)["input_ids"]]


# %% A training as Transformers has it.
def trained(callbacks: list) -> transformers.PreTrainedModel:
    transformers.set_seed(0)
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    sizes = {
        "vocab_size": len(names),
        "n_positions": length,
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 2,
    }
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **ends))
    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=30 if small else 200,
            per_device_train_batch_size=8,
            learning_rate=3e-3,
            logging_steps=10 if small else 50,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
        )
        transformers.Trainer(
            model=model, args=settings, train_dataset=data, callbacks=callbacks
        ).train()
    return model


# %% Once with the callback, once without.
callback = saccade.TrainerCallback(windows[:4], tokenizer, every=5, budget=None)
watched, alone = trained([callback]), trained([])
record = callback.record

# %% The same bits; and what was seen is the model's own attention, as `output_attentions` shows it
# at the end.
different = [
    name
    for name, value in watched.state_dict().items()
    if not torch.equal(value, alone.state_dict()[name])
]
watched.set_attn_implementation("eager")
with torch.no_grad():
    maps = watched.eval()(
        **tokenizer(windows[:1], return_tensors="pt"), output_attentions=True
    ).attentions
own = torch.stack([layer[0] for layer in maps]).numpy()  # layer, head, query, key
seen = record.attention_map.isel(sequence=0, time=-1).values
print(
    f"{len(alone.state_dict())} weights compared, {len(different)} differ; {record.sizes['time']} looks"
)
print(
    f"entropy of attention from {float(record.entropy[0].mean()):.2f} to {float(record.entropy[-1].mean()):.2f} nats"
)
print(
    f"loss from {float(record.loss.dropna('time')[0]):.2f} to {float(record.loss.dropna('time')[-1]):.2f}"
)
assert not different
assert abs(seen[:, :, : own.shape[2], : own.shape[3]] - own).max() < 1e-5
assert record.loss.dropna("time")[-1] < record.loss.dropna("time")[0]
