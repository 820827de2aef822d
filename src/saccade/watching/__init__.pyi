from saccade.watching.drive import attention_drive as attention_drive
