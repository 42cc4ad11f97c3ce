"""`phalanx simulate`: what a recovery policy would have given, in discrete events over a trace of faults."""
