import sys

from training.worker.loop import main

if __name__ == "__main__":
    sys.exit(main())
