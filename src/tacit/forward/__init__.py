"""Forward: a policy for a given reward and cost."""
