"""A machine with a GPU of which only the kernel log tells, for orders to its host role."""

from pathlib import Path

from agent_process import AgentProcess

UUID = "GPU-11111111-2222-3333-4444-555555555555"
PREAMBLE = f"6,1,1000000,-;NVRM: GPU at PCI:0000:3b:00: {UUID}\n"


class Place:
    """One machine with a GPU of which only the kernel log tells, and what was set for its host role."""

    def __init__(self, tmp_path: Path, url: str, cluster: str) -> None:
        self.path = tmp_path
        self.proc = tmp_path / "proc"
        information = self.proc / "driver/nvidia/gpus/0000:3b:00.0/information"
        information.parent.mkdir(parents=True)
        information.write_text("Device Minor: \t 3\n")
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev/nvidia3").touch()
        (tmp_path / "kmsg").write_text(PREAMBLE)
        self.env = {
            "NATS_URL": url,
            "PHALANX_CLUSTER": cluster,
            "PHALANX_NODE_ID": "node-a",
            "PHALANX_DATA_DIR": str(tmp_path / "data"),
            "PHALANX_KMSG": str(tmp_path / "kmsg"),
            "PHALANX_NVML": "off",
            "PHALANX_PROC_ROOT": str(self.proc),
            "PHALANX_DEV_ROOT": str(tmp_path / "dev"),
            "PHALANX_NODE_ACTIONS": "validate,reset_gpu,drain",
            "PHALANX_RESET_COMMAND": f"sh -c 'echo reset {{pci}} >> {tmp_path}/resets'",
            "PHALANX_DRAIN_COMMAND": "sleep 1000",
            "PHALANX_VALIDATE_FLAGS": "--device cpu --matmul-size 32 --memory-mb 1 --device-time 0 --gpus 0",
            "PHALANX_VERIFY_LIMIT": "1",
            "PHALANX_LOG_FORMAT": "json",
        }

    def host(self) -> AgentProcess:
        return AgentProcess(["-m", "node_agent.host_main"], cwd=self.path, env=self.env)

    def order(self, *flags: str, node: str = "node-a") -> AgentProcess:
        command = ["-m", "phalanx_cli.main", "node-action", node, *flags]
        env = {name: self.env[name] for name in ("NATS_URL", "PHALANX_CLUSTER")}
        return AgentProcess(command, cwd=self.path, env=env)

    async def ordered(self, *flags: str, node: str = "node-a") -> tuple[int, str]:
        async with self.order(*flags, node=node) as process:
            return await process.exit_code(timeout_s=200), process.text
