"""The page over a real Muster: a job's curve grows, a worker is killed, a job is cancelled, by mouse and by keys, in both
themes, on a wide and on a narrow screen, and with 10,000 jobs. Milliseconds are printed, and judge nothing.

With a folder as its argument it leaves a screenshot of each view there.
"""
import os
import pathlib
import signal
import sys
import time
import urllib.error
import urllib.request

from muster_page import ROOT, Browser, Muster, local_muster, wait_for
from selenium.webdriver.common.keys import Keys

AXE = (ROOT / "tests/page/axe.min.js").read_text()
MANY = 10_000
PICTURES = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None


def picture(browser: Browser, name: str) -> None:
    if PICTURES:
        PICTURES.mkdir(parents=True, exist_ok=True)
        browser.picture(PICTURES / f"{name}.png")


def check_view(browser: Browser, name: str) -> None:
    """No serious or critical violation of axe-core's in either theme, and nothing wider than a telephone's screen."""
    browser.js(AXE)
    for theme in ("light", "dark"):
        browser.theme(theme)
        browser.wait_for(f"document.documentElement.dataset.theme === '{theme}'", f"the {theme} theme", 10)
        found = browser.driver.execute_async_script(
            "const done = arguments[arguments.length - 1]; axe.run().then((r) => done(r.violations), (e) => done(String(e)))")
        assert isinstance(found, list), found
        bad = [f"{v['id']}: {v['nodes'][0]['html'][:200]} {v['nodes'][0]['failureSummary']}" for v in found
               if v["impact"] in ("serious", "critical")]
        assert not bad, f"{name}, {theme}:\n" + "\n".join(bad)
        picture(browser, f"{name}-{theme}")
    browser.theme("light")
    browser.size(360, 740)
    time.sleep(0.3)  # charts follow the size of their boxes in the next frame
    too_wide = browser.js(
        "return document.documentElement.scrollWidth > 360 ? [...document.querySelectorAll('body *')].filter((e) => "
        "e.getBoundingClientRect().right > 361).map((e) => e.outerHTML.slice(0, 120)).slice(0, 5) : []")
    picture(browser, f"{name}-narrow")
    browser.size(1280, 900)
    assert not too_wide, f"{name}: wider than 360 pixels: {too_wide}"
    print(f"{name}: clean in both themes, fits 360 pixels")


def curves_grow(browser: Browser, muster: Muster) -> int:
    job = muster.submit_digits("digits", 60)
    browser.go(f"#/jobs/{job}")
    points = browser.wait_for("Number((document.querySelector('#curves') || {dataset: {}}).dataset.count)", "a curve")
    browser.wait_for(f"Number(document.querySelector('#curves').dataset.count) > {points}", "the curve grows")
    assert browser.count("#curves canvas") >= 2, "loss and speed are drawn"
    print(f"the curve of job {job} grew beyond {points} points")
    return job


def a_killed_worker_is_on_the_timeline(browser: Browser, muster: Muster, job: int) -> None:
    wait_for(lambda: muster.json("ckpt", "ls", str(job)), "a checkpoint")
    workers = muster.summary(job)["workers"]
    os.kill(muster.pid_of(workers[0]), signal.SIGKILL)
    browser.wait_for("document.querySelector('[data-attempt=\"2\"]')", "a second attempt on the timeline")
    browser.wait_for("(document.querySelector('[data-attempt=\"1\"] .state') || {}).innerText", "how the first ended")
    first = browser.text('[data-attempt="1"]')
    assert "Attempt 1" in first and "steps" in first, first
    browser.wait_for("document.querySelector('.about .state.s-RUNNING')", "it runs again")
    print("attempt 1 ended as:", browser.text('[data-attempt="1"] .state'))


def logs_follow(browser: Browser, muster: Muster) -> None:
    words = "for i in $(seq 1 100000); do echo \"line $i <b>not bold</b>\"; sleep 0.05; done"
    job = muster.submit(f"name: printer\ncommand:\n  argv: [bash, -c, '{words}']\n")
    browser.go(f"#/jobs/{job}/logs")
    lines = browser.wait_for("document.querySelectorAll('#log > div').length", "lines of a log")
    browser.wait_for(f"document.querySelectorAll('#log > div').length > {lines + 10}", "the log is followed")
    assert browser.count("#log b") == 0 and "<b>not bold</b>" in browser.text("#log"), "text stays text"
    check_view(browser, "logs")
    muster.cli("cancel", str(job))


def read_only_until_unlocked(browser: Browser, muster: Muster, job: int) -> None:
    request = urllib.request.Request(f"{muster.url}api/v1/jobs/{job}/cancel", data=b"{}",
                                     headers={"Content-Type": "application/json"})
    try:
        urllib.request.urlopen(request)
        raise AssertionError("a change without a token was taken")
    except urllib.error.HTTPError as refused:
        assert refused.code == 401, refused.code
    for view in ("spec", "logs"):
        browser.go(f"#/jobs/{job}/{view}")
        browser.wait_for("document.querySelector('main .empty button')", f"{view}: for who has the token")
    browser.go(f"#/jobs/{job}")
    browser.click('[data-verb="CANCEL"]')  # asks for the token first
    browser.wait_for("document.querySelector('dialog[open] #token')", "the page asks for a token")
    check_view(browser, "token")
    browser.js("document.querySelector('#token').focus()")
    browser.keys("wrong", Keys.ENTER)
    browser.wait_for("document.querySelector('dialog .problem')", "a wrong token is refused")
    browser.js("document.querySelector('#token').select()")
    browser.keys(muster.token, Keys.TAB, "ann", Keys.ENTER)
    browser.wait_for("!document.querySelector('dialog[open]')", "the token is taken")
    assert muster.token not in browser.js("return document.documentElement.outerHTML + location.href + "
                                          "JSON.stringify(localStorage)"), "the token is in sessionStorage alone"


def spec_is_shown(browser: Browser, job: int) -> None:
    browser.go(f"#/jobs/{job}/spec")
    browser.wait_for("document.querySelector('pre.spec') && document.querySelector('pre.spec').innerText.includes('resnet18')", "the spec")
    check_view(browser, "spec")
    browser.go(f"#/jobs/{job}")


def cancelled_from_the_page(browser: Browser, muster: Muster, job: int) -> None:
    browser.click('[data-verb="CANCEL"]')
    browser.wait_for("document.querySelector('dialog[open] #confirm')", "it asks first")
    browser.click("#confirm")
    browser.wait_for("document.querySelector('.about .state.s-CANCELLED')", "the job is cancelled")
    assert "cancelled" in browser.text("#announcer"), browser.text("#announcer")
    assert muster.summary(job)["state"] == "CANCELLED"
    assert any(e["actor"] == "user:ann" for e in muster.json("show", str(job))["events"])
    print(f"job {job} was cancelled by ann from the page")


def a_waiting_job_is_explained(browser: Browser, muster: Muster) -> None:
    job = muster.submit("name: waits\ncommand: {argv: [bash, -c, 'exit 0']}\n", "--hold")
    browser.go(f"#/jobs/{job}")
    browser.wait_for("document.querySelector('.explain') && document.querySelector('.explain').innerText.includes('release')",
                     "why it waits")
    check_view(browser, "waiting")
    browser.click('[data-verb="RELEASE"]')
    browser.click("#confirm")
    browser.wait_for("document.querySelector('.about .state.s-SUCCEEDED')", "it runs once it is released")


def keys_alone_do(browser: Browser, job: int) -> None:
    browser.go("#/workers")
    browser.wait_for("document.querySelectorAll('table.list tbody tr').length === 2", "two workers")
    browser.keys("g", "j")
    browser.wait_for("document.querySelector('table.jobs')", "g j goes to the jobs")
    browser.keys("/", "digits")
    browser.wait_for("location.hash.includes('text=digits') && document.querySelectorAll('table.jobs tbody tr').length === 1",
                     "/ finds")
    browser.keys(Keys.ESCAPE, "j", Keys.ENTER)
    browser.wait_for(f"location.hash === '#/jobs/{job}'", "Enter opens the row")
    browser.keys("3")
    browser.wait_for(f"location.hash === '#/jobs/{job}/checkpoints' && document.querySelector('table.list tbody tr')",
                     "3 shows the checkpoints")
    browser.keys("?")
    browser.wait_for("document.querySelector('dialog[open] .keys')", "? lists the keys")
    browser.keys(Keys.ESCAPE)
    browser.wait_for("!document.querySelector('dialog[open]')", "Escape closes")
    before = browser.js("return document.documentElement.dataset.theme")
    browser.keys("t")
    browser.wait_for(f"document.documentElement.dataset.theme !== '{before}'", "t flips the theme")
    browser.js("localStorage.clear()")


def it_goes_on_with_another_musterd(browser: Browser, muster: Muster) -> None:
    browser.go("#/jobs")
    term = int(browser.wait_for("(document.querySelector('.pages') || {dataset: {}}).dataset.term", "jobs"))
    os.kill(muster.pid_of("musterd"), signal.SIGKILL)
    browser.wait_for(f"Number(document.querySelector('.pages').dataset.term) > {term}", "the page shows the next musterd's answers")
    browser.wait_for("document.querySelector('.live:not(.off)')", "live again")
    muster.close()
    browser.wait_for("document.querySelector('.live.off')", "the page says that musterd is away", 30)
    assert browser.count("table.jobs tbody tr"), "what was there is still shown"


def ten_thousand_jobs(browser: Browser, muster: Muster) -> None:
    muster.submit("name: many\ncommand: {argv: [bash, -c, 'exit 0']}\n", "--hold", "--array", f"1-{MANY}")
    began = time.monotonic()
    browser.go("?many#/jobs")
    browser.wait_for(f"document.querySelector('.pages').innerText.includes('of 10,0')", "10,000 jobs")
    shown = time.monotonic()
    print(f"{MANY} jobs: shown {1000 * (shown - began):.0f} ms after the address was opened")
    asked = browser.driver.execute_async_script("""
        const done = arguments[arguments.length - 1];
        (async () => {
          const times = {};
          for (const [name, path] of [["newest", "jobs"], ["by name", "jobs?order=NAME"], ["found", "jobs?text=many"]]) {
            const began = performance.now();
            const answer = await fetch("/api/v1/" + path, {cache: "no-store"});
            const body = await answer.text();
            times[name] = Math.round(performance.now() - began) + " ms, " + body.length + " bytes";
          }
          done(times);
        })();""")
    print("questions about them:", asked)
    browser.keys("n")
    browser.wait_for("document.querySelector('.pages').innerText.includes('51–100')", "the next page")
    check_view(browser, "many")


def main() -> None:
    with local_muster(workers=2) as muster:
        browser = Browser(muster.url)
        try:
            job = curves_grow(browser, muster)
            a_killed_worker_is_on_the_timeline(browser, muster, job)
            for view in ("checkpoints", "events"):
                browser.go(f"#/jobs/{job}/{view}")
                browser.wait_for("document.querySelector('table.list tbody tr')", view)
                check_view(browser, view)
            browser.go(f"#/jobs/{job}")
            browser.wait_for("document.querySelector('#curves canvas') && document.querySelector('.ledger')", "curves and ledger")
            check_view(browser, "job")
            for place in ("jobs", "workers", "projects"):
                browser.go(f"#/{place}")
                browser.wait_for("document.querySelector('table.list tbody tr')", place)
                check_view(browser, place)
            read_only_until_unlocked(browser, muster, job)
            spec_is_shown(browser, job)
            cancelled_from_the_page(browser, muster, job)
            logs_follow(browser, muster)
            a_waiting_job_is_explained(browser, muster)
            keys_alone_do(browser, job)
            assert not (said := [c for c in browser.complaints() if "401" not in c]), said
            ten_thousand_jobs(browser, muster)
            it_goes_on_with_another_musterd(browser, muster)
        finally:
            browser.close()
    print("the page holds")


if __name__ == "__main__":
    main()
