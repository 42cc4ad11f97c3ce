"""`phalanx policy`: sound or not, and what would be done."""

from pathlib import Path

from typer.testing import CliRunner

from phalanx_cli.commands.app import app

RUN = CliRunner()


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return str(file)


def test_check_says_that_it_is_sound(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["policy", "check", write(tmp_path, "restarts_max: 5\n")])
    assert done.exit_code == 0
    assert "sound" in done.output


def test_check_points_at_the_line_that_is_wrong(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["policy", "check", write(tmp_path, "restarts_max: 5\nnonsense: 1\n")])
    assert done.exit_code == 2
    assert "policy.yaml:2: unknown field nonsense" in done.output


def test_explain_plays_a_fault_to_its_end(tmp_path: Path) -> None:
    file = write(tmp_path, "process_restarts_before_job: 1\njob_restarts_max: 1\nrestarts_max: 50\n")
    done = RUN.invoke(app, ["policy", "explain", file, "--cause", "hang", "--every-s", "60", "--times", "9"])
    lines = done.output.splitlines()
    assert [("job ends" in line, "level job" in line) for line in lines[1:]] == [
        (False, False),
        (False, True),
        (False, False),
        (True, True),
    ]


def test_explain_asks_the_jobs_own_budget_as_well(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["policy", "explain", write(tmp_path, "quiet_s: 60\n"), "--max-restarts", "2"])
    assert "3. after 600 s: the job ends (failed_budget): 2 of 2 restarts" in done.output


def test_a_clusters_policy_is_checked_too(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["policy", "cluster", write(tmp_path, "ladder: {rungs: [reboot_node]}\ndry_run: true\n")])
    assert done.exit_code == 0
    assert "a dry run: 1 rungs" in done.output
    done = RUN.invoke(app, ["policy", "cluster", write(tmp_path, "breaker:\n  share_max: 3\n")])
    assert done.exit_code == 2
    assert "policy.yaml:2: breaker.share_max" in done.output


def test_explain_tells_how_far_the_gang_shrinks(tmp_path: Path) -> None:
    file = write(tmp_path, "elastic: {nnodes_min: 4, replica_nodes: 2, wait_s: 45}\n")
    said = RUN.invoke(app, ["policy", "explain", file, "--nnodes", "8"]).output
    assert "after 45 s (a job of 8 nodes)" in said
    assert "1 to 2 lost: it goes on with 6 nodes [elastic.shrunk]" in said
    assert "5 to 8 lost: no allowed size is left: it waits for a node [elastic.cannot_shrink]" in said
    refused = RUN.invoke(app, ["policy", "explain", file, "--nnodes", "7"])
    assert refused.exit_code == 2
    assert "policy.yaml: 7 nodes are no whole replicas of 2" in refused.output
