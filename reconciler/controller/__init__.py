"""The imperative shell around `reconciler.rollout`: gathers facts, persists decisions, carries them out."""
