"""Every message of Phalanx, once. Pure: pydantic models, subjects, the envelope and the registry."""
