"""How the embedded model was trained; needs torch and numpy, and nothing of the rest."""
