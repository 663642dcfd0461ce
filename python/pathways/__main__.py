import sys

from pathways.cli import main

sys.exit(main())
