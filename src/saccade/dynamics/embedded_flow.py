"""The embedded model's flow under the name that experiments import it by."""

from saccade.model.embedded import Setting as Setting
from saccade.model.embedded import Weights as Weights
from saccade.model.embedded import invariants as invariants
from saccade.model.embedded import loss as loss
from saccade.model.embedded import velocity as velocity
from saccade.model.embedded import weights_of as weights_of
