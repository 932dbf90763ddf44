"""The pool of killable workers: hangs, deaths and interrupts cost one job and leave nothing."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from mrtpo.verifiers import runner
from mrtpo.verifiers.runner import JobResult, WorkerPool
from mrtpo.verifiers.worker import OUT_OF_MEMORY

TARGET = "pool_handlers:make"


def pool_of(processes=2, seconds=20.0, megabytes=256, settings=None):
    return WorkerPool(TARGET, settings, processes=processes, seconds=seconds, megabytes=megabytes)


def alive(pid):
    """Whether a process runs (one that is dead but not collected does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children():
    return {
        int(pid)
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    }


def gone_within(pids, seconds):
    end = time.monotonic() + seconds
    while any(alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(alive(pid) for pid in pids)


@pytest.fixture(scope="module")
def pool():
    with pool_of() as pool:
        yield pool


def test_results_come_in_the_order_of_the_jobs(pool):
    waits = [0.15, 0.0, 0.1, 0.0, 0.05, 0.0, 0.0, 0.02]
    results = pool.run([["sleep", wait] for wait in waits])
    assert [result.value for result in results] == waits
    assert {result.status for result in results} == {"ok"}


def test_many_jobs_are_each_answered_once(pool):
    results = pool.run([["echo", i] for i in range(1000)])
    assert [result.value for result in results] == list(range(1000))


def test_no_jobs_no_results(pool):
    assert pool.run([]) == []


def test_messages_larger_than_a_pipe_pass_both_ways(pool):
    texts = [f"{i}" * 300_000 for i in range(8)]
    assert [result.value for result in pool.run([["echo", text] for text in texts])] == texts


def test_settings_reach_the_factory():
    with pool_of(settings={"rows": 3}) as pool:
        assert pool.run([["settings"]])[0].value == {"rows": 3}


def test_a_hang_is_killed_and_costs_only_its_own_job():
    with pool_of(processes=1, seconds=0.4) as pool:
        start = time.monotonic()
        results = pool.run([["pid"], ["echo", 1], ["spin"], ["echo", 2], ["spin"], ["echo", 3]])
        took = time.monotonic() - start
        assert [result.status for result in results] == [
            "ok", "ok", "timeout", "ok", "timeout", "ok",
        ]  # fmt: skip
        assert [results[i].value for i in (1, 3, 5)] == [1, 2, 3]
        assert results[2] == JobResult("timeout", None, "killed after 0.4 s")
        assert 0.8 <= took < 5
        assert not alive(results[0].value)
        assert pool.run([["pid"]])[0].value != results[0].value


def test_hangs_in_all_workers_end_in_bounded_time():
    with pool_of(seconds=0.3) as pool:
        start = time.monotonic()
        results = pool.run([["spin"]] * 8)
        assert {result.status for result in results} == {"timeout"}
        assert time.monotonic() - start < 8


def test_the_wall_time_is_that_of_a_job_and_not_of_what_it_waited_behind():
    with pool_of(processes=1, seconds=0.5) as pool:
        results = pool.run([["sleep", 0.2]] * 6)
        assert {result.status for result in results} == {"ok"}


def test_a_tick_restarts_the_clock():
    with pool_of(processes=1, seconds=0.4) as pool:
        ticking, silent = pool.run([["step", 6, 0.15], ["sleep", 0.9]])
        assert (ticking.status, ticking.value) == ("ok", "stepped")
        assert silent.status == "timeout"


def test_an_answer_that_waits_in_the_pipe_is_not_late(monkeypatch):
    collect = runner._Run._collect

    def busy_before(run):  # stands for a process that has no time to look for answers
        time.sleep(0.4)
        collect(run)

    with pool_of(processes=1, seconds=0.2) as pool:
        pool.run([["echo", 0]])
        monkeypatch.setattr(runner._Run, "_collect", busy_before)
        assert [result.value for result in pool.run([["echo", 1], ["echo", 2]])] == [1, 2]


@pytest.mark.parametrize(
    ("job", "status", "said"),
    [
        (["exit", 3], "error", "exit code 3"),
        (["kill"], "error", "exit code -9"),
        (["exit", OUT_OF_MEMORY], "refused", "memory limit"),
        (["memory", 4096], "refused", "memory limit"),
        (["nonsense"], "error", "ValueError: unknown word nonsense"),
    ],
)
def test_a_job_that_ends_its_worker_or_fails_costs_only_itself(pool, job, status, said):
    results = pool.run([["echo", 1], job, ["echo", 2], ["echo", 3]])
    assert [result.status for result in results] == ["ok", status, "ok", "ok"]
    assert [results[i].value for i in (0, 2, 3)] == [1, 2, 3]
    assert results[1].value is None
    assert said in results[1].detail


def test_memory_is_counted_beyond_the_start():
    with pool_of(processes=1, megabytes=64) as pool:
        assert [result.status for result in pool.run([["memory", 32], ["memory", 80]])] == [
            "ok",
            "refused",
        ]


def test_a_worker_that_fell_while_idle_is_replaced_without_blame(pool):
    for pid in {result.value for result in pool.run([["pid"]] * 20)}:
        os.kill(pid, signal.SIGKILL)
        assert gone_within([pid], 5)
    assert [result.value for result in pool.run([["echo", i] for i in range(9)])] == list(range(9))


def test_a_worker_that_falls_while_it_is_handed_work_is_replaced_without_blame(pool, monkeypatch):
    send = runner._Worker.send
    fell = []

    def fall(worker, line):
        if worker.ready and not fell:  # it dies after the pipe took the jobs, before any began
            fell.append(worker.process.pid)
            os.kill(worker.process.pid, signal.SIGSTOP)
            sent = send(worker, line)
            os.kill(worker.process.pid, signal.SIGKILL)
            return sent
        return send(worker, line)

    monkeypatch.setattr(runner._Worker, "send", fall)
    assert [result.value for result in pool.run([["echo", i] for i in range(9)])] == list(range(9))
    assert len(fell) == 1


def test_an_interrupt_from_the_keyboard_is_left_to_the_parent(pool):
    (pid,) = {result.value for result in pool.run([["pid"]])}
    os.kill(pid, signal.SIGINT)
    time.sleep(0.1)
    assert alive(pid)
    assert {result.value for result in pool.run([["pid"]])} == {pid}


def test_a_stray_print_does_not_stand_between_answers(pool):
    assert [result.value for result in pool.run([["print"], ["echo", 5]])] == ["printed", 5]


def test_a_worker_writes_no_file(pool, tmp_path):
    (result,) = pool.run([["write", str(tmp_path / "made")]])
    assert result.status == "error"
    assert "File too large" in result.detail
    assert all(path.stat().st_size == 0 for path in tmp_path.iterdir())


def test_a_worker_starts_light(pool):
    modules = {name.partition(".")[0] for name in pool.run([["modules"]])[0].value}
    assert not modules & {"torch", "pandas", "numpy", "pyarrow", "pydantic", "pytest", "typer"}


def test_close_leaves_no_child_and_the_pool_can_start_again():
    before = children()
    pool = pool_of()
    pids = {result.value for result in pool.run([["pid"]] * 40)}
    assert pids <= children() - before
    pool.close()
    assert children() == before
    assert not any(alive(pid) for pid in pids)
    assert pool.run([["echo", 1]])[0].value == 1
    pool.close()
    assert children() == before


def test_a_pool_that_is_dropped_leaves_no_child():
    before = children()
    pool = pool_of()
    pool.run([["echo", 1]])
    assert children() != before
    del pool
    assert children() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_leaves_no_child_and_no_stale_answer(error):
    before = children()
    pool = pool_of()
    pool.run([["echo", 1]])

    def interrupt(*_):
        raise error

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(error):
            pool.run([["echo", 7], ["sleep", 10], ["spin"], ["echo", 8]])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert children() == before
    assert pool.run([["echo", 9]])[0].value == 9
    pool.close()


def test_a_pool_outlives_the_thread_that_started_it():
    with pool_of(processes=1) as pool:
        pids = []
        thread = threading.Thread(target=lambda: pids.append(pool.run([["pid"]])[0].value))
        thread.start()
        thread.join()
        time.sleep(0.2)
        assert [result.value for result in pool.run([["pid"]])] == pids


def test_threads_get_their_own_results(pool):
    found = {}

    def use(name):
        results = pool.run([["echo", [name, i]] for i in range(50)])
        found[name] = [result.value for result in results]

    threads = [threading.Thread(target=use, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: [[name, i] for i in range(50)] for name in range(4)}


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_die_with_a_parent_that_is_killed_in_the_midst_of_a_hang(how):
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from mrtpo.verifiers.runner import WorkerPool\n"
        "pool = WorkerPool('pool_handlers:make', processes=2, seconds=60)\n"
        "print(*{r.value for r in pool.run([['pid']] * 40)}, flush=True)\n"
        "pool.run([['spin']] * 8)\n"
    )
    paths = [str(Path(__file__).parent), *filter(None, sys.path)]
    parent = subprocess.Popen([sys.executable, "-c", script, *paths], stdout=subprocess.PIPE)
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert pids
    assert all(alive(pid) for pid in pids)
    parent.send_signal(how)
    parent.wait()
    parent.stdout.close()
    assert gone_within(pids, 5)


def test_a_copy_of_the_pool_in_a_forked_process_does_not_stop_the_workers():
    with pool_of(processes=1) as pool:
        pid = pool.run([["pid"]])[0].value
        copy = os.fork()
        if copy == 0:
            pool.close()
            os._exit(0)
        os.waitpid(copy, 0)
        assert pool.run([["pid"]])[0].value == pid


def test_a_target_that_cannot_start_is_an_error_and_not_a_status():
    before = children()
    with (
        WorkerPool("pool_handlers:broken") as pool,
        pytest.raises(RuntimeError, match="did not start"),
    ):
        pool.run([["echo", 1]])
    assert children() == before
