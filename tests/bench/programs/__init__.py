"""What is compared: ceilings, the loop that users write, and peers. Each is a program of its own."""
