"""Dumps that faulthandler wrote in small real processes; only folders were renamed.

CPython 3.11.7 with torch 2.13 on gloo and two ranks; the last two without torch, by CPython 3.12.1 and 3.13.0.
"""

ALL_REDUCE = """\
Current thread 0x00007f7fc6029b80 (most recent call first):
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/env/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/home/user/train.py", line 14 in train_allreduce
  File "/home/user/train.py", line 74 in <module>
"""
"""In dist.all_reduce; the other rank was stopped."""

ALL_REDUCE_WITH_THREAD = """\
Thread 0x00007f8d492266c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 629 in wait
  File "/home/user/train.py", line 72 in <lambda>
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1045 in _bootstrap_inner
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f8d6a21fb80 (most recent call first):
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/env/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/home/user/train.py", line 14 in train_allreduce
  File "/home/user/train.py", line 73 in train_thread
  File "/home/user/train.py", line 74 in <module>
"""
"""The same, with a thread of the script that waits for an event."""

DDP_BACKWARD = """\
Current thread 0x00007fd86dc4fb80 (most recent call first):
  File "/env/site-packages/torch/autograd/graph.py", line 979 in _engine_run_backward
  File "/env/site-packages/torch/autograd/__init__.py", line 395 in backward
  File "/env/site-packages/torch/_tensor.py", line 623 in backward
  File "/home/user/train.py", line 23 in train_ddp
  File "/home/user/train.py", line 74 in <module>
"""
"""In loss.backward() of a DistributedDataParallel model; the other rank was stopped."""

EVALUATE = """\
Current thread 0x00007f37c126bb80 (most recent call first):
  File "/home/user/train.py", line 37 in evaluate
  File "/home/user/train.py", line 27 in train_barrier
  File "/home/user/train.py", line 74 in <module>
"""
"""In a loop of the script that evaluates."""

BARRIER = """\
Current thread 0x00007fd59e444b80 (most recent call first):
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 5356 in barrier
  File "/env/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/home/user/train.py", line 28 in train_barrier
  File "/home/user/train.py", line 74 in <module>
"""
"""In dist.barrier(), waiting for the evaluating rank."""

SLEEP = """\
Current thread 0x00007f6c21c10b80 (most recent call first):
  File "/home/user/train.py", line 31 in train_bcast
  File "/home/user/train.py", line 74 in <module>
"""
"""Asleep in the script, in place of a dead lock."""

BROADCAST = """\
Current thread 0x00007f67e633cb80 (most recent call first):
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 3151 in broadcast
  File "/env/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/home/user/train.py", line 32 in train_bcast
  File "/home/user/train.py", line 74 in <module>
"""
"""In dist.broadcast(), waiting for the sleeping rank."""

DATA_LOADER = """\
Thread 0x00007f6ba15266c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/multiprocessing/queues.py", line 231 in _feed
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1045 in _bootstrap_inner
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f6bc244fb80 (most recent call first):
  File "/usr/lib/python3.11/selectors.py", line 415 in select
  File "/usr/lib/python3.11/multiprocessing/connection.py", line 947 in wait
  File "/usr/lib/python3.11/multiprocessing/connection.py", line 440 in _poll
  File "/usr/lib/python3.11/multiprocessing/connection.py", line 257 in poll
  File "/usr/lib/python3.11/multiprocessing/queues.py", line 113 in get
  File "/env/site-packages/torch/utils/data/dataloader.py", line 1291 in _try_get_data
  File "/env/site-packages/torch/utils/data/dataloader.py", line 1464 in _get_data
  File "/env/site-packages/torch/utils/data/dataloader.py", line 1505 in _next_data
  File "/env/site-packages/torch/utils/data/dataloader.py", line 725 in __next__
  File "/home/user/train.py", line 46 in train_loader
  File "/home/user/train.py", line 74 in <module>
"""
"""Waiting for a worker process of a DataLoader."""

TORCH_SAVE = """\
Current thread 0x00007feb197d3b80 (most recent call first):
  File "/env/site-packages/torch/serialization.py", line 1312 in _save
  File "/env/site-packages/torch/serialization.py", line 1003 in save
  File "/home/user/train.py", line 51 in save_checkpoint
  File "/home/user/train.py", line 54 in train_save
  File "/home/user/train.py", line 74 in <module>
"""
"""In torch.save."""

CHECKPOINT_GATHER = """\
Current thread 0x00007f2bab23eb80 (most recent call first):
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 4287 in all_gather
  File "/env/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 3631 in gather_object
  File "/env/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/env/site-packages/torch/distributed/checkpoint/utils.py", line 135 in gather_object
  File "/env/site-packages/torch/distributed/checkpoint/utils.py", line 197 in reduce_scatter
  File "/env/site-packages/torch/distributed/checkpoint/state_dict_saver.py", line 487 in _save_state_dict
  File "/env/site-packages/torch/distributed/checkpoint/state_dict_saver.py", line 196 in save
  File "/env/site-packages/torch/distributed/checkpoint/utils.py", line 485 in inner_func
  File "/env/site-packages/torch/distributed/checkpoint/logger.py", line 90 in wrapper
  File "/home/user/train.py", line 60 in train_dcp
  File "/home/user/train.py", line 74 in <module>
"""
"""In a collective of torch.distributed.checkpoint; the other rank had not called it."""

ALL_GATHER_OBJECT = """\
Current thread 0x00007fde10a02b80 (most recent call first):
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 4287 in all_gather
  File "/env/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/env/site-packages/torch/distributed/distributed_c10d.py", line 3513 in all_gather_object
  File "/env/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "/home/user/train.py", line 65 in train_gather
  File "/home/user/train.py", line 74 in <module>
"""
"""In dist.all_gather_object."""

WORK_WAIT = """\
Current thread 0x00007ff5f3262b80 (most recent call first):
  File "/home/user/train.py", line 70 in train_workwait
  File "/home/user/train.py", line 74 in <module>
"""
"""In Work.wait() of an asynchronous all_reduce, which leaves no frame of its own."""

FROM_NURSERY = """\
Thread 0x00007f71addaa6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait
  File "/usr/lib/python3.11/threading.py", line 629 in wait
  File "/usr/lib/python3.11/threading.py", line 982 in run
  File "/usr/lib/python3.11/threading.py", line 1045 in _bootstrap_inner
  File "/usr/lib/python3.11/threading.py", line 1002 in _bootstrap

Current thread 0x00007f71aee3cb80 (most recent call first):
  File "/home/user/train.py", line 6 in evaluate
  File "/home/user/train.py", line 8 in <module>
  File "/env/src/worker_link/program.py", line 61 in _run_script
  File "/env/src/worker_link/program.py", line 35 in run_program
  File "/env/src/worker_link/worker_birth.py", line 57 in become_worker
  File "/env/src/worker_link/nursery.py", line 269 in main
  File "<string>", line 1 in <module>
"""
"""A worker that the nursery forked, with a thread."""

_DEEP = '  File "/home/user/train.py", line 7 in deep\n'

PYTHON_312 = """\
Thread 0x00007fc7e31dc6c0 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 355 in wait
  File "/usr/lib/python3.12/threading.py", line 655 in wait
  File "/usr/lib/python3.12/threading.py", line 1010 in run
  File "/usr/lib/python3.12/threading.py", line 1073 in _bootstrap_inner
  File "/usr/lib/python3.12/threading.py", line 1030 in _bootstrap

Current thread 0x00007fc7e3d46b80 (most recent call first):
  File "/home/user/train.py", line 5 in evaluate
  File "/home/user/train.py", line 11 in <module>
Thread 0x00007fc7e31dc6c0 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 355 in wait
  File "/usr/lib/python3.12/threading.py", line 655 in wait
  File "/usr/lib/python3.12/threading.py", line 1010 in run
  File "/usr/lib/python3.12/threading.py", line 1073 in _bootstrap_inner
  File "/usr/lib/python3.12/threading.py", line 1030 in _bootstrap

Current thread 0x00007fc7e3d46b80 (most recent call first):
  File "/home/user/train.py", line 5 in evaluate
  File "/home/user/train.py", line 8 in deep
<DEEP>
  ...
Thread 0x00007fc7e31dc6c0 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 355 in wait
  File "/usr/lib/python3.12/threading.py", line 655 in wait
  File "/usr/lib/python3.12/threading.py", line 1010 in run
  File "/usr/lib/python3.12/threading.py", line 1073 in _bootstrap_inner
  File "/usr/lib/python3.12/threading.py", line 1030 in _bootstrap

Current thread 0x00007fc7e3d46b80 (most recent call first):
  Garbage-collecting
  File "/home/user/train.py", line 13 in __del__
  File "/home/user/train.py", line 15 in <module>
Thread 0x00007fc7e29db6c0 (most recent call first):
  File "/home/user/train.py", line 19 in noisy
  File "/usr/lib/python3.12/threading.py", line 1010 in run
  File "/usr/lib/python3.12/threading.py", line 1073 in _bootstrap_inner
  File "/usr/lib/python3.12/threading.py", line 1030 in _bootstrap

Current thread 0x00007fc7e31dc6c0 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 355 in wait
  File "/usr/lib/python3.12/threading.py", line 655 in wait
  File "/usr/lib/python3.12/threading.py", line 1010 in run
  File "/usr/lib/python3.12/threading.py", line 1073 in _bootstrap_inner
  File "/usr/lib/python3.12/threading.py", line 1030 in _bootstrap

Thread 0x00007fc7e3d46b80 (most recent call first):
  File "/usr/lib/python3.12/threading.py", line 1167 in _wait_for_tstate_lock
  File "/usr/lib/python3.12/threading.py", line 1147 in join
  File "/home/user/train.py", line 20 in <module>
""".replace("<DEEP>\n", _DEEP * 98)
"""Four dumps in one file: plain, deeper than faulthandler goes, in the garbage collector, in a thread."""

PYTHON_313 = """\
Thread 0x00007f2ea34db6c0 (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 359 in wait
  File "/usr/lib/python3.13/threading.py", line 659 in wait
  File "/usr/lib/python3.13/threading.py", line 992 in run
  File "/usr/lib/python3.13/threading.py", line 1041 in _bootstrap_inner
  File "/usr/lib/python3.13/threading.py", line 1012 in _bootstrap

Current thread 0x00007f2ea4046b80 (most recent call first):
  File "/home/user/train.py", line 5 in evaluate
  File "/home/user/train.py", line 11 in <module>
Thread 0x00007f2ea34db6c0 (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 359 in wait
  File "/usr/lib/python3.13/threading.py", line 659 in wait
  File "/usr/lib/python3.13/threading.py", line 992 in run
  File "/usr/lib/python3.13/threading.py", line 1041 in _bootstrap_inner
  File "/usr/lib/python3.13/threading.py", line 1012 in _bootstrap

Current thread 0x00007f2ea4046b80 (most recent call first):
  File "/home/user/train.py", line 5 in evaluate
  File "/home/user/train.py", line 8 in deep
<DEEP>
Thread 0x00007f2ea34db6c0 (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 359 in wait
  File "/usr/lib/python3.13/threading.py", line 659 in wait
  File "/usr/lib/python3.13/threading.py", line 992 in run
  File "/usr/lib/python3.13/threading.py", line 1041 in _bootstrap_inner
  File "/usr/lib/python3.13/threading.py", line 1012 in _bootstrap

Current thread 0x00007f2ea4046b80 (most recent call first):
  Garbage-collecting
  File "/home/user/train.py", line 13 in __del__
  File "/home/user/train.py", line 15 in <module>
Thread 0x00007f2ea2cda6c0 (most recent call first):
  File "/home/user/train.py", line 19 in noisy
  File "/usr/lib/python3.13/threading.py", line 992 in run
  File "/usr/lib/python3.13/threading.py", line 1041 in _bootstrap_inner
  File "/usr/lib/python3.13/threading.py", line 1012 in _bootstrap

Current thread 0x00007f2ea34db6c0 (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 359 in wait
  File "/usr/lib/python3.13/threading.py", line 659 in wait
  File "/usr/lib/python3.13/threading.py", line 992 in run
  File "/usr/lib/python3.13/threading.py", line 1041 in _bootstrap_inner
  File "/usr/lib/python3.13/threading.py", line 1012 in _bootstrap

Thread 0x00007f2ea4046b80 (most recent call first):
  File "/usr/lib/python3.13/threading.py", line 359 in wait
  File "/usr/lib/python3.13/threading.py", line 659 in wait
  File "/usr/lib/python3.13/threading.py", line 979 in start
  File "/home/user/train.py", line 20 in <module>
""".replace("<DEEP>\n", _DEEP * 98)
"""Four dumps in one file: plain, deeper than faulthandler goes, in the garbage collector, in a thread."""
