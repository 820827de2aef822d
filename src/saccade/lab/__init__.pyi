from saccade.lab.case import Case as Case
from saccade.lab.ceiling import Ceiling as Ceiling
from saccade.lab.claim import Claim as Claim
from saccade.lab.experiment import Lab as Lab
from saccade.lab.film import Film as Film
from saccade.lab.formula import Formula as Formula
