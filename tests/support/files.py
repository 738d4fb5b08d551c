"""Changes bytes of files without the server, as a damaged drive would."""


def flip(path, offset):
    """Changes one bit of the byte at the offset. If the file has other names (hard links), they show the change, too."""
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 1]))
