"""What a person does with one command: decide, mail, threads, peers, trust, set-up."""
