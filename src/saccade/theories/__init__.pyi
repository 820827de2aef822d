from saccade.theories.condition import Condition as Condition
from saccade.theories.statement import Statement as Statement
