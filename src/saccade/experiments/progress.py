"""Progress of an experiment that is made of several runs."""

from saccade.lab.experiment import stretch as stretch
