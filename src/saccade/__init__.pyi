from saccade.data.markov import MarkovChain as MarkovChain
from saccade.data.sequence_classes import SequenceClasses as SequenceClasses
from saccade.data.text.corpus import corpus as corpus
from saccade.engines.train_text import train_text as train_text
from saccade.errors import InputError as InputError
from saccade.forecasting.forecast import forecast as forecast
from saccade.lab.experiment import experiment as experiment
from saccade.measures.events import find_events as find_events
from saccade.measures.timeline import timeline as timeline
from saccade.models.system import Observable as Observable
from saccade.models.system import System as System
from saccade.records.store import load_record as load_record
from saccade.records.store import save_record as save_record
from saccade.runs import critical_point as critical_point
from saccade.runs import flow as flow
from saccade.runs import linearise as linearise
from saccade.runs import reduced_flow as reduced_flow
from saccade.runs import train as train
from saccade.sweeps.sweep import sweep as sweep
from saccade.theories.statement import Statement as Statement
from saccade.watching.checkpoints import observe_checkpoints as observe_checkpoints
from saccade.watching.lightning_callback import LightningCallback as LightningCallback
from saccade.watching.mark_attention import mark_attention as mark_attention
from saccade.watching.recorder import watch as watch
from saccade.watching.transformers_callback import TrainerCallback as TrainerCallback

__version__: str
