"""What a detector may hear: audio cut exactly where its knowledge ends."""
