"""How the embedded video model was trained; needs torch and numpy, and nothing of the rest."""
