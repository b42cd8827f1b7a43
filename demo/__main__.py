"""`make demo`: the main job, told step by step with real HTTP against real engines.

Exits 0 when every step was as told, else 1 with the reason. `--keep` leaves it
running, `--end DIR` ends that.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from demo import real_engine
from demo.ending import Ending
from demo.lease_story import LeaseStory
from demo.show import Show
from demo.stage import DemoError, Stage
from demo.story import Story
from demo.window_story import WindowStory


def main() -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave it running, and say what to try")
    parser.add_argument("--end", metavar="DIR", type=Path, help="end the demo that was left running there")
    given = parser.parse_args()
    show = Show()
    if given.end is not None:
        return end(given.end, show)
    keep = given.keep
    found = real_engine.find()
    if found is None:
        show.line("There is no real llama-server for this machine: this demo runs the FAKE engine.")
    stage = Stage(engine=found or real_engine.fake())
    show.line(f"Engine: {stage.engine.name}. Everything lies in {stage.root}.")
    told = False
    try:
        stage.set_up()
        story = Story(stage=stage, show=show)
        second, third = LeaseStory(story=story), WindowStory(story=story)
        try:
            for step in (*story.steps(), *second.steps(), *third.steps()):
                step()
        finally:
            second.end()
            third.end()
        told = True
    except DemoError as reason:
        show.failed(str(reason))
        return 1
    except KeyboardInterrupt:
        show.failed("interrupted")
        return 130
    finally:
        if not (keep and told):
            stage.tear_down()
    show.done(stage if keep else None)
    return 0


def end(root: Path, show: Show) -> int:
    """End the demo that was left running in `root`."""
    try:
        Ending(root=root.resolve(), show=show).run()
    except DemoError as reason:
        print(f"The demo is not ended: {reason}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
