"""How the suite reaches a scheduler: in process, over stdio, by its name."""
