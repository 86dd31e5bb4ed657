import io
import logging

from tqdm import tqdm

from gmts.trainers.watch import progress
from gmts.trainers.watch.progress import Progress


def test_time_left_comes_from_this_process_own_steps(monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", lambda: 1000.0)
    shown = Progress(total=100, done=40, validation=None)
    assert shown.eta(40, 1000.0) == "unknown time"
    assert shown.eta(60, 1040.0) == "1:20"  # 20 steps in 40 s, 40 to go


def test_off_a_terminal_lines_appear_every_ten_seconds_and_at_the_end(monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with caplog.at_level(logging.INFO), Progress(total=10, done=0, validation=None) as shown:
        for step in range(1, 11):
            now[0] += 4.0
            metrics = {"reward/mean": step / 10}
            shown.show(step, metrics | ({"validation/accuracy": 0.5} if step == 5 else {}))
    assert [record.message for record in caplog.records] == [
        "step 3/10: reward 0.300, validation none yet, 0:28 left",
        "step 6/10: reward 0.600, validation 0.500, 0:16 left",
        "step 9/10: reward 0.900, validation 0.500, 0:04 left",
        "step 10/10: reward 1.000, validation 0.500, 0:00 left",
    ]


def test_on_a_terminal_the_bar_starts_at_the_resumed_step(monkeypatch, caplog):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(
        progress, "tqdm", lambda **options: tqdm(file=screen, mininterval=0, **options)
    )
    with caplog.at_level(logging.INFO), Progress(total=10, done=6, validation=0.75) as shown:
        shown.show(7, {"reward/mean": 0.25})
    first, *_, last = screen.getvalue().strip().split("\r")
    assert "6/10" in first
    assert "7/10" in last
    assert "reward=0.250" in last
    assert "validation=0.750" in last
    assert caplog.text == ""


def test_a_watcher_is_told_of_the_start_and_of_each_step(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    seen = []
    with Progress(
        total=3, done=1, validation=0.5, watcher=lambda *told: seen.append(told)
    ) as shown:
        for step in (2, 3):
            now[0] += 60.0
            shown.show(step, {"reward/mean": 0.25})
    assert seen == [
        (1, 3, "starting"),
        (2, 3, "reward 0.250, validation 0.500, 1:00 left"),
        (3, 3, "reward 0.250, validation 0.500, 0:00 left"),
    ]
