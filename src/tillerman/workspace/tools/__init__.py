"""The workspace tools as models see them: schemas and result texts."""
