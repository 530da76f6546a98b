/* A libnvidia-ml.so.1 without a GPU, for fake nodes and tests of what reads one: the calls that Isocost makes, with
 * NVIDIA's signatures, answered from a state (its keys are in docs/telemetry.md). */
#include "state.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB (1024ULL * 1024 * 1024)
#define MAX_GPUS 256
#define MAX_SLICES 7

/* A GPU or a MIG slice by the scope of its keys. Handles stay good memory for ever: a stale one
 * answers "GPU is lost", where the real library may end the process. */
typedef struct {
  char scope[64];
  int slice;
} Device;
typedef Device *nvmlDevice_t;

typedef struct {
  unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
  unsigned int version;
  unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
  unsigned int gpu, memory;
} nvmlUtilization_t;

typedef struct {
  unsigned int pid;
  unsigned long long used_memory;
  unsigned int gpu_instance, compute_instance;
} nvmlProcessInfo_t;

typedef struct {
  char bus_id_legacy[16];
  unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} nvmlPciInfo_t;

typedef struct {
  nvmlDevice_t device;
  unsigned long long type, data;
  unsigned int gpu_instance, compute_instance;
} nvmlEventData_t;

typedef struct {
  unsigned int field, scope;
  long long timestamp, latency_us;
  unsigned int type;
  nvmlReturn_t status;
  unsigned long long value;
} nvmlFieldValue_t;

/* What of each device's list of Xids was delivered. */
typedef struct {
  nvmlDevice_t devices[MAX_GPUS];
  size_t delivered[MAX_GPUS];
  size_t count;
} EventSet;

static Device devices[4 * MAX_GPUS];
static size_t device_count;
static int users;
/* As of the first nvmlInit, like the real library's: who adds or takes GPUs must be read anew. */
static char gpus[TEXT_SIZE];
static unsigned long long driver;

static nvmlReturn_t find_device(const char *scope, int slice, nvmlDevice_t *device) {
  for (size_t i = 0; i < device_count; i++)
    if (strcmp(devices[i].scope, scope) == 0) {
      *device = &devices[i];
      return NVML_SUCCESS;
    }
  if (device_count == sizeof devices / sizeof *devices) return NVML_ERROR_NOT_FOUND;
  *device = &devices[device_count++];
  snprintf((*device)->scope, sizeof (*device)->scope, "%s", scope);
  (*device)->slice = slice;
  return NVML_SUCCESS;
}

static nvmlReturn_t check_driver(void) {
  unsigned long long now;
  if (users == 0) return NVML_ERROR_UNINITIALIZED;
  nvmlReturn_t status = state_number("", "driver", 1, &now);
  if (status == NVML_SUCCESS && now != driver) return NVML_ERROR_UNINITIALIZED;
  return status;
}

/* A GPU that the state does not list any more is lost. */
static nvmlReturn_t check_device(nvmlDevice_t device) {
  char listed[TEXT_SIZE], gpu[64];
  unsigned long long none;
  nvmlReturn_t status = check_driver();
  if (status != NVML_SUCCESS) return status;
  if (device == NULL) return NVML_ERROR_INVALID_ARGUMENT;
  snprintf(gpu, sizeof gpu, "%.*s", (int)strcspn(device->scope, "."), device->scope);
  if ((status = state_text("", "gpus", "", listed)) != NVML_SUCCESS) return status;
  return list_has(listed, gpu) ? state_number(gpu, "all", 0, &none) : NVML_ERROR_GPU_IS_LOST;
}

static nvmlReturn_t number(nvmlDevice_t device, const char *key, unsigned long long fallback,
                           unsigned long long *value) {
  nvmlReturn_t status = check_device(device);
  return status == NVML_SUCCESS ? state_number(device->scope, key, fallback, value) : status;
}

/* One more value of a device that the same call has checked. */
static nvmlReturn_t more(nvmlDevice_t device, const char *key, unsigned int *value) {
  unsigned long long wide;
  nvmlReturn_t status = state_number(device->scope, key, 0, &wide);
  if (status == NVML_SUCCESS) *value = (unsigned int)wide;
  return status;
}

static nvmlReturn_t small(nvmlDevice_t device, const char *key, unsigned int fallback,
                          unsigned int *value) {
  unsigned long long wide;
  nvmlReturn_t status = number(device, key, fallback, &wide);
  if (status == NVML_SUCCESS) *value = (unsigned int)wide;  /* Wraps as a 32-bit counter does. */
  return status;
}

/* What only a whole GPU has. */
static nvmlReturn_t whole(nvmlDevice_t device, const char *key, unsigned int fallback,
                          unsigned int *value) {
  if (device != NULL && device->slice) return NVML_ERROR_NOT_SUPPORTED;
  return small(device, key, fallback, value);
}

static nvmlReturn_t copy(const char *text, char *out, unsigned int size) {
  if (strlen(text) >= size) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}

/* -- The library ------------------------------------------------------------------------------- */

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
  unsigned long long none;
  (void)flags;
  nvmlReturn_t status = state_number("", "init", 0, &none);
  if (status == NVML_SUCCESS && users == 0) {
    status = state_text("", "gpus", "", gpus);
    if (status == NVML_SUCCESS) status = state_number("", "driver", 1, &driver);
  }
  if (status == NVML_SUCCESS) users++;
  return status;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
  if (users == 0) return NVML_ERROR_UNINITIALIZED;
  users--;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
  char name[64];
  nvmlReturn_t status = check_driver();
  if (status != NVML_SUCCESS) return status;
  for (*count = 0; list_item(gpus, *count, name, sizeof name);) ++*count;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  char name[64];
  nvmlReturn_t status = check_driver();
  if (status != NVML_SUCCESS) return status;
  if (!list_item(gpus, index, name, sizeof name)) return NVML_ERROR_INVALID_ARGUMENT;
  if ((status = find_device(name, 0, device)) != NVML_SUCCESS) return status;
  return check_device(*device);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int size) {
  char text[TEXT_SIZE], standard[80];
  nvmlReturn_t status = check_device(device);
  if (status != NVML_SUCCESS) return status;
  snprintf(standard, sizeof standard, "%s-%s", device->slice ? "MIG" : "GPU", device->scope);
  status = state_text(device->scope, "uuid", standard, text);
  return status == NVML_SUCCESS ? copy(text, uuid, size) : status;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  char found[96];
  unsigned int count;
  nvmlReturn_t status = nvmlDeviceGetCount_v2(&count);
  for (unsigned int i = 0; status == NVML_SUCCESS && i < count; i++)
    if (nvmlDeviceGetHandleByIndex_v2(i, device) == NVML_SUCCESS &&
        nvmlDeviceGetUUID(*device, found, sizeof found) == NVML_SUCCESS &&
        strcmp(found, uuid) == 0)
      return NVML_SUCCESS;
  return status == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : status;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int size) {
  char text[TEXT_SIZE];
  nvmlReturn_t status = check_device(device);
  if (status == NVML_SUCCESS)
    status = state_text(device->scope, "name", "NVIDIA Fake 80GB", text);
  return status == NVML_SUCCESS ? copy(text, name, size) : status;
}

static nvmlReturn_t pci_info(nvmlDevice_t device, const char *key, const char *fallback,
                             nvmlPciInfo_t *info) {
  char text[TEXT_SIZE];
  nvmlReturn_t status = check_device(device);
  if (status == NVML_SUCCESS) status = state_text(device->scope, key, fallback, text);
  if (status != NVML_SUCCESS) return status;
  memset(info, 0, sizeof *info);
  sscanf(text, "%x:%x:%x", &info->domain, &info->bus, &info->device);
  return copy(text, info->bus_id, sizeof info->bus_id);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *info) {
  return pci_info(device, "pci", "00000000:01:00.0", info);
}

/* -- Load -------------------------------------------------------------------------------------- */

static unsigned long long rest(unsigned long long total, unsigned long long taken) {
  return taken < total ? total - taken : 0;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
  unsigned long long none;
  nvmlReturn_t status = number(device, "memory_v2", 0, &none);
  if (status == NVML_SUCCESS && memory->version != (sizeof *memory | 2U << 24))
    status = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (status == NVML_SUCCESS) status = number(device, "memory_total", 80 * GIB, &memory->total);
  if (status == NVML_SUCCESS) status = number(device, "memory_used", 0, &memory->used);
  if (status == NVML_SUCCESS) status = number(device, "memory_reserved", 0, &memory->reserved);
  if (status == NVML_SUCCESS) memory->free = rest(memory->total, memory->used + memory->reserved);
  return status;
}

/* The first version counts what the driver keeps for itself as used. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
  unsigned long long reserved;
  nvmlReturn_t status = number(device, "memory_total", 80 * GIB, &memory->total);
  if (status == NVML_SUCCESS) status = number(device, "memory_used", 0, &memory->used);
  if (status == NVML_SUCCESS) status = number(device, "memory_reserved", 0, &reserved);
  if (status != NVML_SUCCESS) return status;
  memory->used += reserved;
  memory->free = rest(memory->total, memory->used);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *rates) {
  nvmlReturn_t status = whole(device, "utilization", 0, &rates->gpu);
  return status == NVML_SUCCESS ? more(device, "memory_bandwidth", &rates->memory) : status;
}

/* "4242:1048576,4243:-1": process ids and their memory, -1 where it is not told. */
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *processes) {
  char text[TEXT_SIZE], item[64];
  unsigned int room = *count, found = 0;
  nvmlReturn_t status = check_device(device);
  if (status == NVML_SUCCESS) status = state_text(device->scope, "processes", "", text);
  if (status != NVML_SUCCESS) return status;
  for (; list_item(text, found, item, sizeof item); found++) {
    long long used = -1;
    if (found >= room || processes == NULL) continue;
    nvmlProcessInfo_t *process = &processes[found];
    memset(process, 0, sizeof *process);
    sscanf(item, "%u:%lld", &process->pid, &used);
    process->used_memory = (unsigned long long)used;
    process->gpu_instance = process->compute_instance = 0xFFFFFFFF;
  }
  *count = found;
  return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* -- PCIe -------------------------------------------------------------------------------------- */

/* Measures over 20 ms, in KB/s. */
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int direction, unsigned int *rate) {
  unsigned int ms;
  nvmlReturn_t status = whole(device, direction == 0 ? "pcie_tx" : "pcie_rx", 0, rate);
  if (status == NVML_SUCCESS && small(device, "pcie_ms", 20, &ms) == NVML_SUCCESS) sleep_ms(ms);
  return status;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *value) {
  return whole(device, "pcie_generation", 5, value);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *value) {
  return whole(device, "pcie_generation_max", 5, value);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *value) {
  return whole(device, "pcie_width", 16, value);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *value) {
  return whole(device, "pcie_width_max", 16, value);
}

nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned int *value) {
  return whole(device, "pcie_replays", 0, value);
}

/* -- NVLink: "nvlinks" of them, their keys "nvlink.0.active" and so on --------------------------- */

static nvmlReturn_t check_link(nvmlDevice_t device, unsigned int link) {
  unsigned int links;
  nvmlReturn_t status = whole(device, "nvlinks", 0, &links);
  if (status != NVML_SUCCESS || link < links) return status;
  return links == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      unsigned int *active) {
  char key[64];
  unsigned long long wide = 0;
  nvmlReturn_t status = check_link(device, link);
  snprintf(key, sizeof key, "nvlink.%u.active", link);
  if (status == NVML_SUCCESS) status = state_number(device->scope, key, 1, &wide);
  *active = (unsigned int)wide;
  return status;
}

nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned int link, int counter,
                                             unsigned long long *value) {
  static const char *const names[] = {"replays", "recoveries", "crc_flit", "crc_data"};
  char key[64];
  nvmlReturn_t status = check_link(device, link);
  if (status != NVML_SUCCESS) return status;
  if (counter < 0 || counter > 3) return NVML_ERROR_INVALID_ARGUMENT;
  snprintf(key, sizeof key, "nvlink.%u.%s", link, names[counter]);
  return state_number(device->scope, key, 0, value);
}

/* Of the fields only NVLink's errors of all links: each link's first error is the field's. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *fields) {
  static const struct {
    unsigned int field;
    const char *name;
  } totals[] = {{38, "crc_flit"}, {45, "crc_data"}, {52, "replays"}, {59, "recoveries"}};
  char key[64];
  unsigned int links;
  nvmlReturn_t status = whole(device, "nvlinks", 0, &links);
  if (status != NVML_SUCCESS) return status;
  for (nvmlFieldValue_t *field = fields; field < fields + count; field++) {
    const char *name = NULL;
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
      if (totals[i].field == field->field) name = totals[i].name;
    field->type = 3; /* unsigned long long */
    field->status = name == NULL || links == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
    field->value = 0;
    for (unsigned int link = 0; link < links && field->status == NVML_SUCCESS; link++) {
      unsigned long long errors = 0;
      snprintf(key, sizeof key, "nvlink.%u.%s", link, name);
      field->status = state_number(device->scope, key, 0, &errors);
      field->value += errors;
    }
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                 nvmlPciInfo_t *info) {
  char key[64];
  nvmlReturn_t status = check_link(device, link);
  snprintf(key, sizeof key, "nvlink.%u.remote", link);
  return status == NVML_SUCCESS ? pci_info(device, key, "00000000:C1:00.0", info) : status;
}

/* -- Condition --------------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int uncorrected, int aggregate,
                                         unsigned long long *value) {
  char key[64];
  if (device != NULL && device->slice) return NVML_ERROR_NOT_SUPPORTED;
  snprintf(key, sizeof key, "ecc_%s%s", uncorrected ? "uncorrected" : "corrected",
           aggregate ? "_ever" : "");
  return number(device, key, 0, value);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected,
                                       unsigned int *uncorrected, unsigned int *pending,
                                       unsigned int *failed) {
  nvmlReturn_t status = whole(device, "rows_corrected", 0, corrected);
  if (status == NVML_SUCCESS) status = more(device, "rows_uncorrected", uncorrected);
  if (status == NVML_SUCCESS) status = more(device, "rows_pending", pending);
  if (status == NVML_SUCCESS) status = more(device, "rows_failed", failed);
  return status;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned int *celsius) {
  return sensor == 0 ? whole(device, "temperature", 40, celsius) : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatts) {
  return whole(device, "power", 300000, milliwatts);
}

nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long *reasons) {
  if (device != NULL && device->slice) return NVML_ERROR_NOT_SUPPORTED;
  return number(device, "clocks_event_reasons", 0, reasons);
}

/* -- MIG: "mig=1,2" are the slices of a GPU, their keys "GPU.1.memory_total" and so on ----------- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
                                  unsigned int *pending) {
  char text[TEXT_SIZE];
  nvmlReturn_t status = check_device(device);
  if (status == NVML_SUCCESS) status = state_text(device->scope, "mig", "", text);
  if (status == NVML_SUCCESS) *current = *pending = text[0] != '\0';
  return status;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
  *count = MAX_SLICES;
  return check_device(device);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *slice) {
  char text[TEXT_SIZE], name[32], scope[96];
  nvmlReturn_t status = check_device(device);
  if (status == NVML_SUCCESS) status = state_text(device->scope, "mig", "", text);
  if (status != NVML_SUCCESS) return status;
  if (!list_item(text, index, name, sizeof name)) return NVML_ERROR_NOT_FOUND;
  snprintf(scope, sizeof scope, "%s.%s", device->scope, name);
  return find_device(scope, 1, slice);
}

/* -- Events: "xids=62,45" grows by each Xid; what was there at registration is history ---------- */

nvmlReturn_t nvmlEventSetCreate(EventSet **set) {
  static EventSet sets[256];
  static size_t next;
  *set = &sets[next++ % (sizeof sets / sizeof *sets)];
  memset(*set, 0, sizeof **set);
  return check_driver();
}

nvmlReturn_t nvmlEventSetFree(EventSet *set) {
  set->count = 0;
  return check_driver();
}

static nvmlReturn_t xids(nvmlDevice_t device, char text[TEXT_SIZE]) {
  nvmlReturn_t status = check_device(device);
  return status == NVML_SUCCESS ? state_text(device->scope, "xids", "", text) : status;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      EventSet *set) {
  char text[TEXT_SIZE], item[32];
  nvmlReturn_t status = xids(device, text);
  if (status != NVML_SUCCESS) return status;
  if (types != 8 || device->slice || set->count == MAX_GPUS) return NVML_ERROR_NOT_SUPPORTED;
  size_t known = 0;
  while (list_item(text, known, item, sizeof item)) known++;
  set->devices[set->count] = device;
  set->delivered[set->count++] = known;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(EventSet *set, nvmlEventData_t *event, unsigned int timeout_ms) {
  char text[TEXT_SIZE], item[32];
  for (unsigned int waited_ms = 0;; waited_ms += 5) {
    unsigned long long none;
    nvmlReturn_t status = check_driver();
    if (status == NVML_SUCCESS) status = state_number("", "event_wait", 0, &none);
    if (status != NVML_SUCCESS) return status;
    for (size_t i = 0; i < set->count; i++) {
      if ((status = xids(set->devices[i], text)) != NVML_SUCCESS) return status;
      if (!list_item(text, set->delivered[i], item, sizeof item)) continue;
      set->delivered[i]++;
      memset(event, 0, sizeof *event);
      event->device = set->devices[i];
      event->type = 8;
      sscanf(item, "%llu", &event->data);
      return NVML_SUCCESS;
    }
    if (waited_ms >= timeout_ms) return NVML_ERROR_TIMEOUT;
    sleep_ms(5);
  }
}

/* -- Topology: "a.nvlink.0.remote_type", "a.ancestor.b", "a.numa_node" ---------------------------- */

/* The place of a text in a list of names, or a number as it is. */
static int level(const char *text, const char *const names[], int count, int step) {
  for (int i = 0; i < count; i++)
    if (strcmp(text, names[i]) == 0) return i * step;
  return (int)strtol(text, NULL, 10);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 int *type) {
  static const char *const names[] = {"gpu", "npu", "switch"};
  char key[64], text[TEXT_SIZE];
  nvmlReturn_t status = check_link(device, link);
  snprintf(key, sizeof key, "nvlink.%u.remote_type", link);
  if (status == NVML_SUCCESS) status = state_text(device->scope, key, "switch", text);
  if (status == NVML_SUCCESS) *type = level(text, names, 3, 1);
  return status;
}

/* The key stands at either of the two. */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device, nvmlDevice_t other,
                                                 int *ancestor) {
  static const char *const names[] = {"internal", "single", "multiple", "hostbridge", "node",
                                      "system"};
  char key[96], text[TEXT_SIZE], back[TEXT_SIZE];
  nvmlReturn_t status = check_device(device);
  if (status == NVML_SUCCESS) status = check_device(other);
  if (status != NVML_SUCCESS) return status;
  snprintf(key, sizeof key, "ancestor.%s", device->scope);
  status = state_text(other->scope, key, "system", back);
  snprintf(key, sizeof key, "ancestor.%s", other->scope);
  if (status == NVML_SUCCESS) status = state_text(device->scope, key, back, text);
  if (status == NVML_SUCCESS) *ancestor = level(text, names, 6, 10);
  return status;
}

/* The node of the GPU's own memory, which few systems see as one. */
nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, int *node) {
  unsigned int value;
  nvmlReturn_t status = whole(device, "numa_node", UINT_MAX, &value);
  if (status == NVML_SUCCESS && value == UINT_MAX) return NVML_ERROR_NOT_SUPPORTED;
  if (status == NVML_SUCCESS) *node = (int)value;
  return status;
}
