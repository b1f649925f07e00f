"""Reserved for a fast scheduler and monitor, decision for decision the reference's. Nothing is here yet."""
