"""The rank-one flow under the name that experiments import it by."""

from saccade.model.rank_one import RankOne as RankOne
from saccade.model.rank_one import loss as loss
from saccade.model.rank_one import small_start as small_start
from saccade.model.rank_one import velocity as velocity
