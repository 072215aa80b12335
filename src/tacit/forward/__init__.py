"""Forward methods: find a policy for a given reward and cost."""
