"""``python -m streamshard`` is the command ``streamshard``."""

if __name__ == "__main__":
    from streamshard.entrypoints.cli.main import main

    main()
