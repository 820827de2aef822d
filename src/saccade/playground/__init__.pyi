from saccade.playground.export import export_record as export_record
