from saccade.engines.flow import times_around as times_around
