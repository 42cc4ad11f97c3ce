"""A name is finished by a rename or by rest, counts for the generation that wrote it, and is told once."""

from node_agent.domain.checkpoint_arrivals import REMEMBERED_MAX, Arrival, Arrivals, Entry, Look, again, observe


def entry(step: int, *, size: int = 10, inode: int | None = None) -> Entry:
    return Entry(path=f"/c/{step}", step=step, rank=None, inode=inode or step, state=(1, size, 0))


class Watch:
    def __init__(self, *before: Entry) -> None:
        self.arrivals = Arrivals.before_the_job(Look(entries=before))

    def at(self, now_s: float, *entries: Entry, version: int = 1, writing: set[int] | None = None) -> list[Arrival]:
        look = Look(entries=entries, writing=frozenset(writing or ()))
        self.arrivals, finished = observe(self.arrivals, look, topology_version=version, now_s=now_s, stable_s=2.0)
        return list(finished)


def steps(arrivals: list[Arrival]) -> list[tuple[int, int]]:
    return [(arrival.entry.step, arrival.topology_version) for arrival in arrivals]


def test_what_grows_is_not_finished_and_what_rests_is_told_once() -> None:
    watch = Watch()
    assert watch.at(1, entry(10, size=1)) == []
    assert watch.at(2, entry(10, size=2)) == []
    assert watch.at(3.9, entry(10, size=2)) == []
    assert steps(watch.at(4, entry(10, size=2))) == [(10, 1)]
    assert watch.at(9, entry(10, size=2)) == []


def test_a_rename_is_finished_at_once() -> None:
    watch = Watch()
    watch.at(1, writing={77})
    [arrival] = watch.at(2, entry(10, inode=77))
    assert arrival.renamed


def test_what_was_there_before_the_job_is_not_this_jobs() -> None:
    watch = Watch(entry(500))
    assert watch.at(1, entry(500)) == []
    assert watch.at(9, entry(500)) == []
    watch.at(10, entry(500, size=11))
    assert steps(watch.at(12, entry(500, size=11))) == [(500, 1)], "written anew by this job"


def test_what_the_first_look_after_a_restart_finds_is_of_the_generation_before() -> None:
    watch = Watch()
    watch.at(1)
    watch.at(2, entry(10), version=2)
    watch.at(3, entry(10), entry(11), version=2)
    assert steps(watch.at(9, entry(10), entry(11), version=2)) == [(10, 1), (11, 2)]


def test_written_anew_it_counts_for_the_new_generation() -> None:
    watch = Watch()
    watch.at(1, entry(10))
    assert steps(watch.at(3, entry(10))) == [(10, 1)]
    watch.at(4, entry(10), version=2)
    watch.at(5, entry(10, inode=99), version=2)
    assert steps(watch.at(7, entry(10, inode=99), version=2)) == [(10, 2)]


def test_one_that_failed_its_check_is_tried_again() -> None:
    watch = Watch()
    watch.at(1, entry(10))
    assert len(watch.at(3, entry(10))) == 1
    watch.arrivals = again(watch.arrivals, ["/c/10", "/c/gone"], now_s=3)
    assert watch.at(4, entry(10)) == []
    assert len(watch.at(5, entry(10))) == 1


def test_memory_is_bounded_and_old_names_do_not_come_again_and_again() -> None:
    many = [entry(step) for step in range(1, 2 * REMEMBERED_MAX)]
    watch = Watch(*many)
    assert len(watch.arrivals.known) == REMEMBERED_MAX
    for now_s in range(1, 12):
        assert watch.at(float(now_s), *many) == []
