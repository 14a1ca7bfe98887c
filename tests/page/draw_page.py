"""Draws docs/page.png: the page over a real Muster, with a job that has met the death of a worker. Its argument is the file.

scripts/draw-page runs it.
"""
import io
import os
import pathlib
import signal
import sys

from muster_page import Browser, local_muster, wait_for
from PIL import Image

COLOURS = 192  # of the picture: half of the bytes, and nobody sees it


def main() -> None:
    with local_muster(workers=2) as muster:
        job = muster.submit_digits("digits-resnet18", 40)
        wait_for(lambda: int(muster.summary(job)["step"]) > 150, "some steps")
        os.kill(muster.pid_of("worker-1"), signal.SIGKILL)
        wait_for(lambda: int(muster.summary(job)["attempt"]) == 2 and int(muster.summary(job)["step"]) > 400,
                 "steps of the second attempt")
        browser = Browser(muster.url)
        try:
            browser.size(1280, 860)
            browser.go(f"#/jobs/{job}")
            browser.wait_for("[...document.querySelectorAll('.figure dt')].some((e) => e.innerText === 'Time left')", "a pace")
            browser.wait_for("document.querySelectorAll('#curves canvas').length >= 4 && document.querySelector('.ledger')",
                             "curves and ledger")
            image = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
        finally:
            browser.close()
        muster.cli("cancel", str(job))
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(pathlib.Path(sys.argv[1]), optimize=True)


if __name__ == "__main__":
    main()
