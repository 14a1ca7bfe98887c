"""The page over a real Muster: a job's curve grows, a worker is killed, jobs are cancelled, suspended, resumed and requeued, by
mouse and by keys, in both themes, on a wide and on a narrow screen, and with 10,000 jobs. Others than the owner see what they
may, archived jobs are found, checkpoints are pinned and removed, a worker is drained. Milliseconds are printed, and judge nothing.

With a folder as its argument it leaves a screenshot of each view there.
"""
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from muster_page import BIN, DIGITS, ROOT, Browser, Muster, local_muster, wait_for
from selenium.webdriver.common.keys import Keys

AXE = (ROOT / "tests/page/axe.min.js").read_text()
MANY = 10_000
TESTS = BIN.parent / "tests"  # programs that are steps of tests
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
    job = muster.submit_digits("digits", 600)  # until it is cancelled, on a quick machine, too
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
    browser.wait_for("document.querySelector('#user-button').innerText.endsWith('ann')", "who one is")
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


def asked_for(browser: Browser, verb: str, effect: str) -> None:
    """Clicks on the verb, sees what it will do, and says yes."""
    browser.click(f'[data-verb="{verb}"]')
    browser.wait_for("document.querySelector('dialog[open] #confirm')", "it asks first")
    assert effect in browser.text("dialog[open]"), browser.text("dialog[open]")
    browser.click("#confirm")
    browser.wait_for("!document.querySelector('dialog[open]')", f"{verb} is done")


def verbs_offered(browser: Browser) -> set[str]:
    return set(browser.js("return [...document.querySelectorAll('[aria-label=\"Change this job\"] [data-verb]')]"
                          ".map((e) => e.dataset.verb)"))


def suspended_resumed_and_requeued(browser: Browser, muster: Muster) -> None:
    """By ann: a job saves and gives its slots back, goes on, goes into the queue again, and does so after it was cancelled."""
    def runs(attempt: int) -> None:
        browser.wait_for(f"document.querySelector('[data-attempt=\"{attempt}\"]') && document.querySelector('.about .state.s-RUNNING')",
                         f"attempt {attempt} runs")
        wait_for(lambda: muster.summary(job)["attempt"] == attempt and int(muster.summary(job)["step"]) > 0, f"a step of attempt {attempt}")

    # No restart to spend: what a person asks for costs none.
    job = muster.submit(DIGITS.replace("NAME", "again").replace("EPOCHS", "200"), "--set", "restart.max_restarts=0")
    browser.go(f"#/jobs/{job}")
    runs(1)
    asked_for(browser, "SUSPEND", "gives its slots back")
    browser.wait_for("document.querySelector('.about .state.s-SUSPENDED') && document.querySelector('.explain')", "it is suspended, and why")
    browser.wait_for("document.querySelector('#announcer').innerText.includes('suspended')", "what a screen reader says")
    assert verbs_offered(browser) == {"RESUME", "CANCEL"}, verbs_offered(browser)
    assert all(worker.get("slots_used", 0) == 0 for worker in muster.json("nodes")), "the slots are given back"
    saved = max(int(checkpoint["step"]) for checkpoint in muster.json("ckpt", "ls", str(job)))
    check_view(browser, "suspended")
    asked_for(browser, "RESUME", "on from its last checkpoint")
    runs(2)
    assert {"SUSPEND", "REQUEUE", "CANCEL"} == verbs_offered(browser), verbs_offered(browser)
    asked_for(browser, "REQUEUE", "goes into the queue again")
    runs(3)
    muster.cli("cancel", str(job))
    browser.wait_for("document.querySelector('.about .state.s-CANCELLED')", "it is cancelled")
    assert verbs_offered(browser) == {"REQUEUE"}, verbs_offered(browser)
    asked_for(browser, "REQUEUE", "goes into the queue again")
    runs(4)
    muster.cli("cancel", str(job))
    browser.wait_for("document.querySelector('.about .state.s-CANCELLED')", "it is cancelled again")
    shown = muster.json("show", str(job))
    firsts = [int(attempt.get("first_step", 0)) for attempt in sorted(shown["attempts"], key=lambda a: int(a["number"]))]
    assert firsts[0] == 0 and firsts[1] >= saved > 0 and firsts == sorted(firsts), (firsts, saved)
    browser.go(f"#/jobs/{job}/events")
    browser.wait_for("[...document.querySelectorAll('table.list tbody tr')].filter((e) => e.innerText.includes('user:ann')).length >= 4",
                     "who suspended, resumed and requeued it")
    print(f"job {job} was suspended, resumed and requeued twice from the page; its attempts began at the steps {firsts}")


def log_in(browser: Browser, token: str, name: str) -> None:
    browser.click("#user-button")
    browser.wait_for("document.querySelector('dialog[open] #token')", "the page asks for a token")
    browser.js("document.querySelector('#token').focus()")
    browser.keys(token, Keys.ENTER)
    browser.wait_for(f"document.querySelector('#user-button').innerText.endsWith('{name}')", f"it is {name}")


def log_out(browser: Browser) -> None:
    browser.js("document.querySelector('main').firstElementChild.dataset.drawnFor = 'the one who leaves'")
    browser.click("#user-button")
    browser.click("#log-out")
    browser.wait_for("!document.querySelector('[data-drawn-for]')", "what was drawn for the one who leaves is gone")
    browser.wait_for("document.querySelector('#user-button').innerText === 'Log in'", "nobody is logged in")
    assert not browser.js("return sessionStorage.getItem('muster-token')"), "the token is forgotten"


def checkpoints_are_kept_and_let_go(browser: Browser, muster: Muster, job: int) -> None:
    """By ann, with the token of the data folder."""
    browser.go(f"#/jobs/{job}/checkpoints")
    browser.click('[data-verb="PIN"]')
    browser.wait_for("document.querySelector('.tag.pinned')", "a pinned checkpoint")
    pinned = int(browser.js("return document.querySelector('.tag.pinned').closest('tr').dataset.checkpoint"))
    row = f'[data-checkpoint="{pinned}"]'
    assert "kept by ann" in browser.text(row), browser.text(row)
    assert browser.count(f'{row} [data-verb="UNPIN"]') and not browser.count(f'{row} [data-verb="REMOVE"]')
    check_view(browser, "checkpoints-pinned")
    browser.click(f'{row} [data-verb="UNPIN"]')  # may let it go: asks first
    browser.wait_for("document.querySelector('dialog[open] #confirm')", "it asks first")
    assert muster.json("ckpt", "show", str(pinned))["pinned_by"] == "user:ann"
    browser.click("#confirm")
    browser.wait_for(f"document.querySelector('{row} [data-verb=\"PIN\"]')", "it is pinned no more")
    browser.click(f'{row} [data-verb="REMOVE"]')
    browser.wait_for("document.querySelector('dialog[open] [name=force]')", "it asks first, and offers force")
    check_view(browser, "checkpoint-remove")
    browser.js("document.querySelector('dialog [name=force]').click()")
    browser.click("#confirm")
    browser.wait_for(f"document.querySelector('{row}.gone')", "a worker has deleted it")
    assert muster.json("ckpt", "show", str(pinned))["state"] == "DELETED"
    print(f"checkpoint {pinned} was pinned, unpinned and removed from the page")


def a_worker_is_drained_and_undrained(browser: Browser, muster: Muster) -> None:
    job = muster.submit("name: holder\nranks: 2\ncommand: {argv: [sleep, '1000']}\n")
    browser.go("#/workers")
    browser.wait_for("document.querySelectorAll('.holders li').length === 2 && [...document.querySelectorAll('.holders')]"
                     ".every((e) => e.innerText.includes('holder'))", "who holds which slot")
    held = sorted(browser.js("return [...document.querySelectorAll('.holders li')].map((e) => e.innerText)"))
    assert all("slot 0" in h and str(job) in h for h in held) and "rank 0" in " ".join(held) and "rank 1" in " ".join(held), held
    print("held:", held)
    check_view(browser, "workers-held")
    muster.cli("cancel", str(job))
    name = browser.js("return document.querySelector('[data-worker]').dataset.worker")
    row = f'[data-worker="{name}"]'
    browser.click(f'{row} [data-verb="DRAIN"]')
    browser.wait_for("document.querySelector('dialog[open] #reason')", "it asks why")
    check_view(browser, "drain")
    browser.keys("new fans", Keys.ENTER)
    browser.wait_for(f"document.querySelector('{row}').innerText.includes('new fans')", "why it is drained")
    worker = next(w for w in muster.json("nodes") if w["name"] == name)
    assert worker["cordoned"] and worker["cordon_reason"] == "new fans", worker
    browser.wait_for(f"document.querySelector('{row} .state').innerText.trim() === 'drained'", "drained, in words")
    check_view(browser, "drained")
    browser.click(f'{row} [data-verb="UNDRAIN"]')
    browser.click("#confirm")
    browser.wait_for(f"document.querySelector('{row} .state').innerText.trim() === 'ready'", "it takes jobs again")


def a_lost_worker_is_told_by_words(browser: Browser, muster: Muster) -> None:
    worker = muster.pid_of("worker-2")
    browser.go("#/workers")
    os.kill(worker, signal.SIGSTOP)
    try:
        row = '[data-worker="worker-2"]'
        browser.wait_for(f"document.querySelector('{row} .state').innerText.trim() === 'lost'", "a silent worker is lost")
        assert "silent for" in browser.text(row), browser.text(row)
        check_view(browser, "worker-lost")
    finally:
        os.kill(worker, signal.SIGCONT)
    browser.wait_for(f"document.querySelector('{row} .state').innerText.trim() === 'ready'", "it is back")


def states_are_told_by_words(browser: Browser) -> None:
    """States that take minutes or a cluster to come about, drawn from answers that are changed on their way."""
    browser.go("#/workers")
    browser.js("""
        const real = window.fetch;
        window.fetch = async (path, init) => {
          const answer = await real(path, init);
          if (!path.includes("/workers")) return answer;
          const body = await answer.json();
          const worker = (name, changes) => ({ ...body.workers[0], name, ...changes });
          const gpus = [...Array(8).keys()];
          const held = (slot, job) => ({ slot, job_id: job, job_name: job === "0" ? "" : "gang", owner: "ann", attempt: 1, rank: slot + 8 });
          body.workers = [
            worker("bad", { state: "quarantined", quarantined_until_ms: String(Date.now() + 600000), quarantine_reason: "3 failures of 2 users" }),
            worker("spot", { state: "draining" }), worker("late", { state: "suspect" }),
            worker("shared", { slots: gpus.map((index) => ({ ...body.workers[0].slots[0], index })), slots_used: 5,
              holders: [held(0, "7"), held(1, "7"), held(2, "7"), held(3, "7"), held(6, "0")] })];
          return new Response(JSON.stringify(body));
        };""")
    browser.wait_for("document.querySelector('[data-worker=\"shared\"]')", "the changed answer")
    for name, words in (("bad", "quarantined nothing new until 3 failures of 2 users"), ("spot", "draining machine goes away"),
                        ("late", "suspect missed heartbeats"), ("shared", "slots 0–3: gang 7 ranks 8–11 slot 6: a job that you may not read")):
        shown = browser.text(f'[data-worker="{name}"]')
        assert all(word in shown for word in words.split()), shown
    check_view(browser, "worker-states")
    browser.driver.refresh()


def others_see_what_they_may(browser: Browser, muster: Muster, job: int) -> None:
    """bob reads all projects, and may change what is his own."""
    muster.cli("user", "add", "bob")
    muster.cli("user", "grant", "bob", "*", "user")
    token = muster.json("token", "create", "bob", "--name", "laptop")["token"]
    waits = muster.submit("name: waits-too\ncommand: {argv: ['true']}\n", "--hold")
    log_out(browser)
    log_in(browser, token, "bob")
    browser.click("#user-button")
    browser.wait_for("document.querySelector('dialog[open] #log-out')", "who one is")
    told = browser.text("dialog[open]")
    assert "laptop" in told and "all projects" in told and "user" in told, told
    check_view(browser, "user")
    browser.keys(Keys.ESCAPE)
    browser.go(f"#/jobs/{waits}")
    browser.wait_for("document.querySelector('.may-not')", "why nothing can be changed")
    assert browser.count("[data-verb]") == 0 and "operator in project" in browser.text(".may-not"), browser.text(".may-not")
    check_view(browser, "may-not")
    browser.go(f"#/jobs/{job}/checkpoints")
    browser.wait_for("document.querySelector('table.list tbody tr')", "checkpoints")
    assert browser.count("[data-verb]") == 0, "bob may change nothing of this job"
    browser.go("#/workers")
    browser.wait_for("document.querySelector('[data-worker]') && document.querySelector('.may-not')", "why no worker can be drained")
    assert browser.count("[data-verb]") == 0, "bob may drain nothing"
    own = muster.submit_as(token, "name: of-bob\ncommand: {argv: ['true']}\n", "--hold")
    browser.go(f"#/jobs/{own}")
    browser.click('[data-verb="CANCEL"]')
    browser.click("#confirm")
    browser.wait_for("document.querySelector('.about .state.s-CANCELLED')", "bob's own job is cancelled")
    assert any(e["actor"] == "user:bob" for e in muster.json("show", str(own))["events"])
    muster.cli("user", "rm", "bob")
    browser.wait_for("document.querySelector('dialog[open] #token')", "a token that was taken away asks for another")
    check_view(browser, "token-lapsed")
    browser.click("#log-out")
    browser.wait_for("document.querySelector('#user-button').innerText === 'Log in'", "nobody is logged in")
    muster.cli("cancel", str(waits))


def archived_jobs_are_found(browser: Browser, muster: Muster, job: int) -> None:
    points = muster.json("metrics", str(job))
    many = muster.submit("name: array\ncommand: {argv: ['true']}\n", "--hold", "--array", "1-60")
    muster.cli("cancel", str(many), "--array")
    muster.close()
    archived = int(subprocess.run([str(TESTS / "archive_ended_jobs"), str(muster.folder / "local/controller")],
                                  capture_output=True, text=True, timeout=120, check=True).stdout)
    assert archived > 60, archived
    muster.open()
    browser.url = muster.url
    browser.go("#/jobs")
    browser.wait_for(f"document.querySelector('.pages').innerText.includes('{archived} are archived')", "how many are archived")
    assert browser.count("table.jobs tbody tr") == 0, "none is in memory"
    browser.click(".pages a")
    browser.wait_for("document.querySelectorAll('table.jobs tbody tr').length === 50", "the newest archived jobs")
    check_view(browser, "archived")
    browser.keys("n")
    browser.wait_for(f"document.querySelectorAll('table.jobs tbody tr').length === {archived - 50}", "the older ones")
    assert browser.count(f'table.jobs a[href="#/jobs/{job}"]') == 1
    browser.keys("b")
    browser.wait_for("document.querySelectorAll('table.jobs tbody tr').length === 50", "the newest ones again")
    browser.click(".chip.s-SUCCEEDED")
    browser.wait_for("document.querySelectorAll('table.jobs .s-CANCELLED').length === 0 && document.querySelector('table.jobs .s-SUCCEEDED')",
                     "only those that succeeded")
    browser.keys("/", "digits", Keys.ENTER)
    browser.wait_for(f"document.querySelector('.job-head') && document.querySelector('.job-head').innerText.includes('{job}')", "by its name")
    browser.wait_for("document.querySelectorAll('#curves canvas').length >= 2", "its curves")
    browser.wait_for("document.querySelector('[data-attempt=\"2\"]') && document.querySelector('.ledger')", "its attempts and time")
    assert points == muster.json("metrics", str(job))
    check_view(browser, "archived-job")
    browser.go(f"#/jobs/{job}/checkpoints")
    browser.wait_for("document.querySelector('table.list tbody tr')", "its checkpoints")
    browser.go("#/jobs?text=digits")
    browser.click(".empty a")
    browser.wait_for("document.querySelector('.job-head')", "what is not in memory is looked for")
    print(f"{archived} jobs were archived, and found")


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
    browser.driver.refresh()  # with the theme of the system again


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
            suspended_resumed_and_requeued(browser, muster)
            checkpoints_are_kept_and_let_go(browser, muster, job)
            a_worker_is_drained_and_undrained(browser, muster)
            a_lost_worker_is_told_by_words(browser, muster)
            states_are_told_by_words(browser)
            logs_follow(browser, muster)
            a_waiting_job_is_explained(browser, muster)
            keys_alone_do(browser, job)
            others_see_what_they_may(browser, muster, job)
            archived_jobs_are_found(browser, muster, job)
            assert not (said := [c for c in browser.complaints() if "401" not in c]), said
            ten_thousand_jobs(browser, muster)
            it_goes_on_with_another_musterd(browser, muster)
        finally:
            browser.close()
    print("the page holds")


if __name__ == "__main__":
    main()
