"""From texts to graded samples: corpus, rank, answer, grade."""
