from saccade.data.labelled_sequences import LabelledSequences as LabelledSequences
from saccade.data.text.windows import Windows as Windows
