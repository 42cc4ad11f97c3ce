/* A libnvidia-ml.so.1 without a GPU: what it answers stands in a control file that is looked at before every call.
 *
 * It exists so that the real nvidia-ml-py, in real processes, can be shown faults that no machine has on demand: a lost
 * GPU, a call that does not return, an old driver, pending row remaps. Built by fake_library.py; nothing else links it.
 *
 * Control file: $PHALANX_FAKE_NVML_STATE, lines "<gpu index>.<key> <value>" and "sys.<key> <value>"; numbers decimal or
 * 0x hex. Whoever writes it writes a new file and renames it, so a reader sees the old text or the new one. Without
 * the file: eight healthy GPUs. Keys are listed in fake_state.py, with what each does.
 *
 * Sizes and layouts follow nvml.h, API 13 (checked by tests/adapters/test_fake_nvml_library.py against pynvml).
 * -DPHALANX_OLD_DRIVER leaves out what came with later drivers, so that looking up the symbol fails as it does there. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int Return;
typedef unsigned int U32;
typedef unsigned long long U64;

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10, GPU_IS_LOST = 15, RESET_REQUIRED = 16, ARGUMENT_VERSION_MISMATCH = 25
};
enum { GPUS_MAX = 16, LINKS_MAX = 18, MIG_MAX = 7, PIDS_MAX = 32, ENTRIES_MAX = 2048, KEY_MAX = 64, VALUE_MAX = 96 };
enum { NO_INSTANCE = 0xFFFFFFFF, XID_CRITICAL = 0x8, RECOVERY_ACTION_EVENT = 0x8000 };
static const U64 EVENTS_SUPPORTED = 0x1 | 0x2 | XID_CRITICAL | RECOVERY_ACTION_EVENT;

typedef struct { int gpu; int mig; } Device; /* mig: -1 for the whole GPU */
typedef struct { char legacy[16]; U32 domain, bus, device, device_id, subsystem_id; char bus_id[32]; } PciInfo;
typedef struct { Device *device; U64 type, data; U32 gpu_instance, compute_instance; } EventData;
typedef struct {
    U32 field, scope; long long at, latency; U32 value_type; Return result;
    union { double real; U32 u32; U64 u64; long long s64; } value;
} FieldValue;
typedef struct { U64 total, free, used; } Memory;
typedef struct { U32 version; U64 total, reserved, free, used; } MemoryV2;
typedef struct { U32 pid; U64 used; U32 gpu_instance, compute_instance; } ProcessInfo;
typedef struct {
    U32 version; unsigned char cluster[16]; Return status; U32 clique, state, mask; unsigned char summary;
} FabricInfo;
typedef struct { U32 version; U64 aggregate_parity, aggregate_secded, aggregate_corrected, volatile_parity,
    volatile_secded, volatile_corrected, buckets[5]; U32 threshold_exceeded; } SramStatus;
typedef struct { U32 version; int margin; } Margin;
typedef struct { U32 version, sensor; int temperature; } TemperatureV;
typedef struct { U32 max, high, partial, low, none; } Histogram;
typedef struct { U32 gpu, memory; } Utilization;
typedef struct { U64 mask[GPUS_MAX]; long seq[GPUS_MAX]; } EventSet;

static Device whole[GPUS_MAX], slices[GPUS_MAX][MIG_MAX];
static int initialised;

/* ------------------------------------------------------------------------------------------- the control file */

static struct { char key[KEY_MAX]; char value[VALUE_MAX]; } entries[ENTRIES_MAX];
static int entry_count;
static struct stat seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void reread(void) {
    const char *path = getenv("PHALANX_FAKE_NVML_STATE");
    struct stat now;
    if (!path || stat(path, &now)) { entry_count = 0; memset(&seen, 0, sizeof seen); return; }
    if (now.st_ino == seen.st_ino && now.st_size == seen.st_size && now.st_mtim.tv_sec == seen.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec) return;
    FILE *file = fopen(path, "r");
    if (!file) return;
    char line[256];
    entry_count = 0;
    while (entry_count < ENTRIES_MAX && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %95[^\n]", entries[entry_count].key, entries[entry_count].value) == 2) entry_count++;
    fclose(file);
    seen = now;
}

/* Copies the value of a key; 0 when the file does not say it. gpu -1 means the whole system. */
static int text(int gpu, const char *key, char *value) {
    char wanted[KEY_MAX];
    int found = 0;
    if (gpu < 0) snprintf(wanted, sizeof wanted, "sys.%s", key);
    else snprintf(wanted, sizeof wanted, "%d.%s", gpu, key);
    pthread_mutex_lock(&lock);
    reread();
    for (int i = 0; i < entry_count; i++)
        if (!strcmp(entries[i].key, wanted)) { strcpy(value, entries[i].value); found = 1; }
    pthread_mutex_unlock(&lock);
    return found;
}

static long long number(int gpu, const char *key, long long otherwise) {
    char value[VALUE_MAX];
    return text(gpu, key, value) ? strtoll(value, NULL, 0) : otherwise;
}

static long long of_symbol(int gpu, const char *prefix, const char *symbol) {
    char key[KEY_MAX];
    snprintf(key, sizeof key, "%s.%s", prefix, symbol);
    return number(gpu, key, 0);
}

static long long of_link(int gpu, U32 link, const char *what) {
    char key[KEY_MAX];
    snprintf(key, sizeof key, "nvlink%u_%s", link, what);
    return number(gpu, key, 0);
}

/* Waits as long as the file says; a hang ends when the file no longer says so, as a driver may come back. */
static void be_slow(int gpu, const char *symbol) {
    for (long waited_ms = 0;; waited_ms += 5) {
        long long wanted_ms = of_symbol(gpu, "slow_ms", symbol);
        if (gpu >= 0 && !wanted_ms) wanted_ms = number(gpu, "slow_ms", 0);
        if (waited_ms >= wanted_ms) return;
        usleep(5000);
    }
}

static Return enter(const Device *device, const char *symbol) {
    if (!initialised) return UNINITIALIZED;
    int gpu = device ? device->gpu : -1;
    be_slow(gpu, symbol);
    Return wanted = (Return)of_symbol(-1, "err", symbol);
    if (!wanted && gpu >= 0) wanted = (Return)of_symbol(gpu, "err", symbol);
    if (wanted) return wanted;
    if (gpu >= 0 && number(gpu, "lost", 0)) return GPU_IS_LOST;
    if (gpu >= 0 && number(gpu, "reset_required", 0)) return RESET_REQUIRED;
    return OK;
}

#define ENTER(device) do { if (!(device)) return INVALID_ARGUMENT; Return entered = enter(device, __func__); \
    if (entered) return entered; } while (0)
#define ENTER_SYSTEM() do { Return entered = enter(NULL, __func__); if (entered) return entered; } while (0)
#define NUMBER(symbol, key, otherwise) \
    Return symbol(Device *device, U32 *value) { ENTER(device); *value = (U32)number(device->gpu, key, otherwise); return OK; }

/* ------------------------------------------------------------------------------------------------- the system */

static U32 gpu_count(void) { U32 n = (U32)number(-1, "count", 8); return n > GPUS_MAX ? GPUS_MAX : n; }

Return nvmlInitWithFlags(U32 flags) {
    (void)flags;
    be_slow(-1, __func__);
    Return wanted = (Return)number(-1, "init_err", 0);
    if (wanted) return wanted;
    for (int gpu = 0; gpu < GPUS_MAX; gpu++) {
        whole[gpu] = (Device){gpu, -1};
        for (int mig = 0; mig < MIG_MAX; mig++) slices[gpu][mig] = (Device){gpu, mig};
    }
    initialised++;
    return OK;
}
Return nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
Return nvmlShutdown(void) { if (!initialised) return UNINITIALIZED; initialised--; return OK; }

const char *nvmlErrorString(Return code) {
    static char words[32];
    snprintf(words, sizeof words, "fake NVML error %d", code);
    return words;
}

static Return word(int gpu, const char *key, const char *otherwise, char *buffer, U32 length) {
    char value[VALUE_MAX];
    snprintf(buffer, length, "%s", text(gpu, key, value) ? value : otherwise);
    return OK;
}
Return nvmlSystemGetDriverVersion(char *buffer, U32 length) {
    ENTER_SYSTEM();
    return word(-1, "driver_version", "580.65.06", buffer, length);
}
Return nvmlSystemGetNVMLVersion(char *buffer, U32 length) {
    ENTER_SYSTEM();
    return word(-1, "nvml_version", "13.580.65.06", buffer, length);
}
Return nvmlSystemGetCudaDriverVersion_v2(int *version) { ENTER_SYSTEM(); *version = 13000; return OK; }
Return nvmlDeviceGetCount_v2(U32 *count) { ENTER_SYSTEM(); *count = gpu_count(); return OK; }

/* ------------------------------------------------------------------------------------- handles and identities */

static U32 bus_of(int gpu) { return (U32)number(gpu, "pci_bus", 0x10 + gpu); }
static void uuid_of(int gpu, int mig, char *buffer, U32 length) {
    char value[VALUE_MAX];
    U32 node = (U32)number(-1, "node", 0);
    if (mig >= 0) snprintf(buffer, length, "MIG-%08x-0000-4000-9000-%06d%06d", node, gpu, mig);
    else if (text(gpu, "uuid", value)) snprintf(buffer, length, "%s", value);
    else snprintf(buffer, length, "GPU-%08x-0000-4000-8000-%012d", node, gpu);
}
Return nvmlDeviceGetHandleByIndex_v2(U32 index, Device **device) {
    ENTER_SYSTEM();
    if (index >= gpu_count()) return INVALID_ARGUMENT;
    ENTER(&whole[index]);
    *device = &whole[index];
    return OK;
}
Return nvmlDeviceGetHandleByUUID(const char *uuid, Device **device) {
    ENTER_SYSTEM();
    for (U32 gpu = 0; gpu < gpu_count(); gpu++) {
        char own[VALUE_MAX];
        uuid_of(gpu, -1, own, sizeof own);
        if (!strcmp(own, uuid)) { *device = &whole[gpu]; return OK; }
    }
    return NOT_FOUND;
}
Return nvmlDeviceGetHandleByPciBusId_v2(const char *address, Device **device) {
    U32 domain, bus;
    ENTER_SYSTEM();
    if (sscanf(address, "%x:%x:", &domain, &bus) != 2) return INVALID_ARGUMENT;
    for (U32 gpu = 0; gpu < gpu_count(); gpu++)
        if (bus == bus_of(gpu)) { *device = &whole[gpu]; return OK; }
    return NOT_FOUND;
}
Return nvmlDeviceGetUUID(Device *device, char *buffer, U32 length) {
    ENTER(device);
    uuid_of(device->gpu, device->mig, buffer, length);
    return OK;
}
Return nvmlDeviceGetSerial(Device *device, char *buffer, U32 length) {
    char serial[VALUE_MAX];
    ENTER(device);
    snprintf(serial, sizeof serial, "165%05u%05d", (U32)number(-1, "node", 0) % 100000, device->gpu);
    return word(device->gpu, "serial", serial, buffer, length);
}
Return nvmlDeviceGetBoardPartNumber(Device *device, char *buffer, U32 length) {
    ENTER(device);
    return word(device->gpu, "board_part_number", "692-2G520-0200-000", buffer, length);
}
Return nvmlDeviceGetName(Device *device, char *buffer, U32 length) {
    ENTER(device);
    return word(device->gpu, "name", "Fake H100 80GB HBM3", buffer, length);
}
Return nvmlDeviceGetBoardId(Device *device, U32 *id) { ENTER(device); *id = bus_of(device->gpu) << 8; return OK; }
Return nvmlDeviceGetIndex(Device *device, U32 *index) { ENTER(device); *index = device->gpu; return OK; }
Return nvmlDeviceGetMinorNumber(Device *device, U32 *minor) { ENTER(device); *minor = device->gpu; return OK; }
Return nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *pci) {
    ENTER(device);
    memset(pci, 0, sizeof *pci);
    pci->bus = bus_of(device->gpu);
    pci->device_id = 0x233010de;
    pci->subsystem_id = 0x16c110de;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    snprintf(pci->legacy, sizeof pci->legacy, "0000:%02X:00.0", pci->bus);
    return OK;
}
NUMBER(nvmlDeviceGetPersistenceMode, "persistence", 1)

/* ------------------------------------------------------------------------------------------------------ memory */

Return nvmlDeviceGetEccMode(Device *device, U32 *current, U32 *pending) {
    ENTER(device);
    *current = *pending = (U32)number(device->gpu, "ecc_mode", 1);
    return OK;
}
static Return ecc(Device *device, U32 error, U32 counter, U64 *count) {
    if (!number(device->gpu, "ecc_mode", 1)) return NOT_SUPPORTED;
    char key[KEY_MAX];
    snprintf(key, sizeof key, "ecc_%s_%s", counter ? "aggregate" : "volatile", error ? "uncorrected" : "corrected");
    *count = (U64)number(device->gpu, key, 0);
    return OK;
}
Return nvmlDeviceGetTotalEccErrors(Device *device, U32 error, U32 counter, U64 *count) {
    ENTER(device);
    return ecc(device, error, counter, count);
}
Return nvmlDeviceGetMemoryErrorCounter(Device *device, U32 error, U32 counter, U32 location, U64 *count) {
    ENTER(device);
    return location == 1 || location == 2 ? ecc(device, error, counter, count) : NOT_SUPPORTED;
}
Return nvmlDeviceValidateInforom(Device *device) {
    ENTER(device);
    return (Return)number(device->gpu, "inforom_err", 0);
}
Return nvmlDeviceGetRetiredPagesPendingStatus(Device *device, U32 *pending) {
    ENTER(device);
    long long value = number(device->gpu, "retired_pages_pending", -1);
    if (value < 0) return NOT_SUPPORTED; /* as on Ampere and later, which remap rows instead */
    *pending = (U32)value;
    return OK;
}
static Return retired(Device *device, U32 *count) {
    long long value = number(device->gpu, "retired_pages", -1);
    if (value < 0) return NOT_SUPPORTED;
    *count = (U32)value;
    return OK;
}
Return nvmlDeviceGetRetiredPages(Device *device, U32 cause, U32 *count, U64 *pages) {
    U32 wanted = 0;
    ENTER(device);
    Return result = cause ? OK : retired(device, &wanted);
    if (result) return result;
    if (wanted > *count) { *count = wanted; return INSUFFICIENT_SIZE; }
    for (U32 i = 0; pages && i < wanted; i++) pages[i] = 0x1000ull * (i + 1);
    *count = wanted;
    return OK;
}
#ifndef PHALANX_OLD_DRIVER
Return nvmlDeviceGetSramEccErrorStatus(Device *device, SramStatus *status) {
    ENTER(device);
    U32 version = status->version;
    if ((version & 0xFFFFFF) != sizeof *status) return ARGUMENT_VERSION_MISMATCH;
    memset(status, 0, sizeof *status);
    status->version = version;
    status->aggregate_secded = (U64)number(device->gpu, "sram_uncorrected", 0);
    status->threshold_exceeded = (U32)number(device->gpu, "sram_threshold", 0);
    return OK;
}
Return nvmlDeviceGetRemappedRows(Device *device, U32 *corrected, U32 *uncorrected, U32 *pending, U32 *failure) {
    ENTER(device);
    if (number(device->gpu, "mig", 0)) return NOT_SUPPORTED;
    *corrected = (U32)number(device->gpu, "remap_corrected", 0);
    *uncorrected = (U32)number(device->gpu, "remap_uncorrected", 0);
    *pending = (U32)number(device->gpu, "remap_pending", 0);
    *failure = (U32)number(device->gpu, "remap_failure", 0);
    return OK;
}
Return nvmlDeviceGetRowRemapperHistogram(Device *device, Histogram *banks) {
    ENTER(device);
    *banks = (Histogram){(U32)number(device->gpu, "banks_max", 640), 0, (U32)number(device->gpu, "banks_partial", 0),
        (U32)number(device->gpu, "banks_low", 0), (U32)number(device->gpu, "banks_none", 0)};
    return OK;
}
#endif

/* -------------------------------------------------------------------------------------------- heat and power */

Return nvmlDeviceGetTemperature(Device *device, U32 sensor, U32 *celsius) {
    ENTER(device);
    if (sensor) return INVALID_ARGUMENT;
    *celsius = (U32)number(device->gpu, "temperature", 41);
    return OK;
}
Return nvmlDeviceGetTemperatureThreshold(Device *device, U32 kind, U32 *celsius) {
    static const U32 usual[] = {92, 89, 95, 87}; /* shutdown, slowdown, memory, operating */
    static const char *const keys[] = {"shutdown", "slowdown", "memory_max", "gpu_max"};
    ENTER(device);
    if (kind > 3) return NOT_SUPPORTED;
    *celsius = (U32)number(device->gpu, keys[kind], usual[kind]);
    return OK;
}
#ifndef PHALANX_OLD_DRIVER
Return nvmlDeviceGetMarginTemperature(Device *device, Margin *margin) {
    ENTER(device);
    long long usual = number(device->gpu, "gpu_max", 87) - number(device->gpu, "temperature", 41);
    margin->margin = (int)number(device->gpu, "margin", usual);
    return OK;
}
Return nvmlDeviceGetTemperatureV(Device *device, TemperatureV *read) {
    ENTER(device);
    if ((read->version & 0xFFFFFF) != sizeof *read) return ARGUMENT_VERSION_MISMATCH;
    read->temperature = (int)number(device->gpu, "temperature", 41);
    return OK;
}
#endif
NUMBER(nvmlDeviceGetPowerUsage, "power_mw", 71000)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit_mw", 700000)
static Return clock_reasons(Device *device, U64 *reasons) {
    *reasons = (U64)number(device->gpu, "clock_reasons", 0x1); /* idle */
    return OK;
}
#ifndef PHALANX_OLD_DRIVER
Return nvmlDeviceGetCurrentClocksEventReasons(Device *device, U64 *reasons) {
    ENTER(device);
    return clock_reasons(device, reasons);
}
#endif
Return nvmlDeviceGetCurrentClocksThrottleReasons(Device *device, U64 *reasons) {
    ENTER(device);
    return clock_reasons(device, reasons);
}
Return nvmlDeviceGetClockInfo(Device *device, U32 kind, U32 *mhz) {
    ENTER(device);
    if (kind != 1) return NOT_SUPPORTED; /* NVML_CLOCK_SM */
    *mhz = (U32)number(device->gpu, "sm_clock", 1980);
    return OK;
}
Return nvmlDeviceGetUtilizationRates(Device *device, Utilization *rates) {
    ENTER(device);
    if (number(device->gpu, "mig", 0)) return NOT_SUPPORTED;
    *rates = (Utilization){(U32)number(device->gpu, "utilization", 0), 0};
    return OK;
}
Return nvmlDeviceGetMemoryInfo(Device *device, Memory *memory) {
    ENTER(device);
    *memory = (Memory){85899345920ull, 85899345920ull, 0};
    return OK;
}
Return nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryV2 *memory) {
    ENTER(device);
    *memory = (MemoryV2){memory->version, 85899345920ull, 0, 85899345920ull, 0};
    return OK;
}

/* ------------------------------------------------------------------------------------------- PCIe and NVLink */

NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie_replay", 0)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen", 5)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max", 5)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", 16)

static U32 link_count(const Device *device) {
    U32 n = (U32)number(device->gpu, "nvlinks", LINKS_MAX);
    return n > LINKS_MAX ? LINKS_MAX : n;
}
Return nvmlDeviceGetNvLinkState(Device *device, U32 link, U32 *active) {
    ENTER(device);
    if (!link_count(device)) return NOT_SUPPORTED;
    if (link >= link_count(device)) return INVALID_ARGUMENT;
    *active = !of_link(device->gpu, link, "down");
    return OK;
}
static const char *const link_counters[] = {"replay", "recovery", "crc", "crc_data", "ecc"};
Return nvmlDeviceGetNvLinkErrorCounter(Device *device, U32 link, U32 counter, U64 *count) {
    ENTER(device);
    if (link >= link_count(device) || counter > 4) return INVALID_ARGUMENT;
    *count = (U64)of_link(device->gpu, link, link_counters[counter]);
    return OK;
}
Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *device, U32 link, PciInfo *pci) {
    ENTER(device);
    if (link >= link_count(device)) return INVALID_ARGUMENT;
    memset(pci, 0, sizeof *pci);
    pci->bus = 0xc0 + link / 5; /* four switches */
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return OK;
}
#ifndef PHALANX_OLD_DRIVER
Return nvmlDeviceGetGpuFabricInfoV(Device *device, FabricInfo *fabric) {
    ENTER(device);
    U32 version = fabric->version;
    if ((version & 0xFFFFFF) != sizeof *fabric) return ARGUMENT_VERSION_MISMATCH;
    memset(fabric, 0, sizeof *fabric);
    fabric->version = version;
    fabric->state = (U32)number(device->gpu, "fabric_state", 3);
    fabric->status = (Return)number(device->gpu, "fabric_status", 0);
    fabric->mask = (U32)number(device->gpu, "fabric_mask", 0xaa); /* four times "no" */
    fabric->summary = (unsigned char)number(device->gpu, "fabric_summary", 1);
    return OK;
}
#endif

/* ----------------------------------------------------------------------------------------------- field values */

enum { NVLINK5_FIRST = 205, NVLINK5_LAST = 222 };
static const char *const nvlink5_counters[] = {
    "vl15", "malformed", "overrun", "receive", "receive_remote", "receive_general", "integrity", "discards",
    "recovery_ok", "recovery_failed", "recovery_events"
};
static Return field(Device *device, FieldValue *value) {
    int gpu = device->gpu;
    char key[KEY_MAX];
    value->value_type = 1; /* unsigned int */
    value->value.u64 = 0;
    snprintf(key, sizeof key, "field_ret.%u", value->field);
    Return wanted = (Return)number(gpu, key, 0);
    if (wanted) return wanted;
    snprintf(key, sizeof key, "field.%u", value->field);
    long long given = number(gpu, key, -1);
    if (given >= 0) { value->value.u64 = (U64)given; return OK; }
    int is_link = (value->field >= 161 && value->field <= 163) ||
        (value->field >= NVLINK5_FIRST && value->field <= NVLINK5_LAST);
    if (is_link && value->scope >= link_count(device)) return INVALID_ARGUMENT;
    if (is_link && value->field <= 163) {
        value->value_type = 3; /* unsigned long long */
        value->value.u64 = (U64)of_link(gpu, value->scope, link_counters[value->field - 161]);
        return OK;
    }
    if (is_link) {
        if (number(-1, "nvlink_generation", 4) < 5 || value->field - NVLINK5_FIRST > 10) return NOT_SUPPORTED;
        value->value_type = 3;
        value->value.u64 = (U64)of_link(gpu, value->scope, nvlink5_counters[value->field - NVLINK5_FIRST]);
        return OK;
    }
    switch (value->field) {
    case 82: value->value.u32 = (U32)number(gpu, "memory_temperature", 47); return OK;
    case 193: case 194: case 195: case 196:
        value->value_type = 4; /* signed: a distance */
        value->value.s64 = number(gpu, "tlimit", -5);
        return OK;
#ifndef PHALANX_OLD_DRIVER
    case 230: value->value.u32 = (U32)number(gpu, "recovery_action", 0); return OK;
#endif
    default: return NOT_SUPPORTED;
    }
}
Return nvmlDeviceGetFieldValues(Device *device, int count, FieldValue *values) {
    ENTER(device);
    for (int i = 0; i < count; i++) values[i].result = field(device, &values[i]);
    return OK;
}

/* ------------------------------------------------------------------------------------------ processes and MIG */

Return nvmlDeviceGetComputeRunningProcesses_v3(Device *device, U32 *count, ProcessInfo *processes) {
    char value[VALUE_MAX], *rest = value;
    U32 pids[PIDS_MAX], wanted = 0;
    ENTER(device);
    if (text(device->gpu, "pids", value))
        for (char *word; wanted < PIDS_MAX && (word = strsep(&rest, ",")) != NULL;) pids[wanted++] = (U32)atol(word);
    if (wanted > *count || (wanted && !processes)) { *count = wanted; return INSUFFICIENT_SIZE; }
    for (U32 i = 0; i < wanted; i++) processes[i] = (ProcessInfo){pids[i], 1ull << 30, NO_INSTANCE, NO_INSTANCE};
    *count = wanted;
    return OK;
}
Return nvmlDeviceGetMigMode(Device *device, U32 *current, U32 *pending) {
    ENTER(device);
    *current = (U32)number(device->gpu, "mig", 0);
    *pending = (U32)number(device->gpu, "mig_pending", *current);
    return OK;
}
Return nvmlDeviceGetMaxMigDeviceCount(Device *device, U32 *count) { ENTER(device); *count = MIG_MAX; return OK; }
Return nvmlDeviceGetMigDeviceHandleByIndex(Device *device, U32 index, Device **slice) {
    ENTER(device);
    if (!number(device->gpu, "mig", 0)) return NOT_SUPPORTED;
    if (index >= MIG_MAX) return INVALID_ARGUMENT;
    if (index >= (U32)number(device->gpu, "mig_instances", 0)) return NOT_FOUND;
    *slice = &slices[device->gpu][index];
    return OK;
}
Return nvmlDeviceGetGpuInstanceId(Device *device, U32 *id) {
    ENTER(device);
    if (device->mig < 0) return NOT_SUPPORTED;
    *id = (U32)device->mig + 7;
    return OK;
}
Return nvmlDeviceGetComputeInstanceId(Device *device, U32 *id) {
    ENTER(device);
    if (device->mig < 0) return NOT_SUPPORTED;
    *id = 0;
    return OK;
}
Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *slice, Device **device) {
    ENTER(slice);
    *device = &whole[slice->gpu];
    return OK;
}

/* ----------------------------------------------------------------------------------------------------- events */

Return nvmlEventSetCreate(EventSet **set) {
    ENTER_SYSTEM();
    *set = calloc(1, sizeof **set);
    return *set ? OK : INSUFFICIENT_SIZE;
}
Return nvmlEventSetFree(EventSet *set) { free(set); return OK; }
Return nvmlDeviceGetSupportedEventTypes(Device *device, U64 *types) {
    ENTER(device);
    *types = (U64)number(device->gpu, "event_types", (long long)EVENTS_SUPPORTED);
    return OK;
}
Return nvmlDeviceRegisterEvents(Device *device, U64 types, EventSet *set) {
    ENTER(device);
    if (types & ~(U64)number(device->gpu, "event_types", (long long)EVENTS_SUPPORTED)) return NOT_SUPPORTED;
    set->mask[device->gpu] |= types;
    set->seq[device->gpu] = (long)number(device->gpu, "event_seq", 0);
    return OK;
}
/* An event is delivered once for every growth of <gpu>.event_seq, with what <gpu>.event_type and event_data then say. */
Return nvmlEventSetWait_v2(EventSet *set, EventData *event, U32 timeout_ms) {
    ENTER_SYSTEM();
    for (U32 waited_ms = 0;; waited_ms += 20) {
        for (U32 gpu = 0; gpu < gpu_count(); gpu++) {
            long seq = (long)number((int)gpu, "event_seq", 0);
            U64 type = (U64)number((int)gpu, "event_type", XID_CRITICAL);
            if (seq <= set->seq[gpu] || !(set->mask[gpu] & type)) continue;
            set->seq[gpu] = seq;
            *event = (EventData){&whole[gpu], type, (U64)number((int)gpu, "event_data", 0), NO_INSTANCE, NO_INSTANCE};
            return OK;
        }
        if (waited_ms >= timeout_ms) return TIMEOUT;
        usleep(20000);
    }
}
