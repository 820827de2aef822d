from saccade.report.notebook import show as show
from saccade.report.page import write_report as write_report
