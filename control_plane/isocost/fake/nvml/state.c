/* Reads the state of the fake NVML: a file, or all files of a folder. */
#include "state.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define CONTENT_SIZE (1024 * 1024)
#define MAX_LINES 16384
/* A file or a folder is looked at so often: at each call that would cost more than the call. */
#define FILE_NS 50000
#define FOLDER_NS 1000000

typedef struct {
  const char *key, *value;
} Line;

typedef unsigned long long Mark;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char content[CONTENT_SIZE];
static size_t used;
/* Sorted by key; of one key in the order of the files. */
static Line lines[MAX_LINES];
static size_t line_count;
static char all_gpus[TEXT_SIZE];
/* What was read last: its inodes, sizes and times in one number, and how it went. */
static Mark seen;
static nvmlReturn_t loaded = NVML_ERROR_DRIVER_NOT_LOADED;
static unsigned long long look_at_ns;

void sleep_ms(unsigned long long ms) {
  struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
  nanosleep(&pause, NULL);
}

static unsigned long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
}

static Mark mixed(Mark mark, unsigned long long value) { return (mark ^ value) * 0x100000001b3ULL; }

static Mark marked(Mark mark, const struct stat *file) {
  mark = mixed(mixed(mark, file->st_ino), (unsigned long long)file->st_size);
  mark = mixed(mark, (unsigned long long)file->st_mtim.tv_sec);
  return mixed(mark, (unsigned long long)file->st_mtim.tv_nsec);
}

static int add_gpus(const char *names) {
  size_t length = strlen(all_gpus);
  int wanted = snprintf(all_gpus + length, sizeof all_gpus - length, "%s%s",
                        length == 0 || *names == '\0' ? "" : ",", names);
  return (size_t)wanted < sizeof all_gpus - length;
}

/* 0: there is no room for it. */
static int add_line(char *line) {
  char *value = strchr(line, '=');
  if (value == NULL) return 1;
  *value++ = '\0';
  if (strcmp(line, "gpus") == 0) return add_gpus(value);
  if (line_count == MAX_LINES - 1 || strlen(value) >= TEXT_SIZE) return 0;
  lines[line_count++] = (Line){line, value};
  return 1;
}

/* 0: there is no room for it. A file that went meanwhile says nothing. */
static int add_file(const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return 1;
  size_t room = sizeof content - used - 1;
  size_t length = fread(content + used, 1, room, file);
  int whole = length < room || fgetc(file) == EOF;
  fclose(file);
  char *line = content + used, *rest = line;
  line[length] = '\0';
  used += length + 1;
  while (whole && (line = strsep(&rest, "\n")) != NULL) whole = add_line(line);
  return whole && used < sizeof content;
}

static int by_key(const void *one, const void *other) {
  const Line *a = one, *b = other;
  int order = strcmp(a->key, b->key);
  return order != 0 ? order : (a->key > b->key) - (a->key < b->key);
}

static void begin(void) {
  used = line_count = 0;
  all_gpus[0] = '\0';
}

/* Half a state would tell GPUs wrong numbers. */
static nvmlReturn_t end(const char *path, int whole) {
  lines[line_count++] = (Line){"gpus", all_gpus};
  qsort(lines, line_count, sizeof *lines, by_key);
  if (!whole)
    fprintf(stderr, "fake NVML: %s is too large: %d bytes, %d lines, %d bytes a value\n", path,
            CONTENT_SIZE, MAX_LINES, TEXT_SIZE);
  return whole ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

static int is_shown(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static int by_name(const struct dirent **one, const struct dirent **other) {
  return strcmp((*one)->d_name, (*other)->d_name);
}

static nvmlReturn_t load_folder(const char *path, Mark mark) {
  char full[4096];
  struct dirent **entries;
  struct stat file;
  int count = scandir(path, &entries, is_shown, by_name);
  if (count < 0) return NVML_ERROR_DRIVER_NOT_LOADED;
  for (int i = 0; i < count; i++) {
    snprintf(full, sizeof full, "%s/%s", path, entries[i]->d_name);
    if (stat(full, &file) == 0) mark = marked(mark, &file);
  }
  if (mark != seen) {
    int whole = 1;
    begin();
    for (int i = 0; whole && i < count; i++) {
      snprintf(full, sizeof full, "%s/%s", path, entries[i]->d_name);
      whole = add_file(full);
    }
    loaded = end(path, whole);
    seen = mark;
  }
  for (int i = 0; i < count; i++) free(entries[i]);
  free(entries);
  return loaded;
}

/* Without a state there is no driver. Writers replace a file by a rename, so that it is never half
 * written. */
static nvmlReturn_t load(void) {
  unsigned long long at_ns = now_ns();
  if (at_ns < look_at_ns) return loaded;
  const char *path = getenv(STATE_VARIABLE);
  struct stat now;
  if (path == NULL || stat(path, &now) != 0) return NVML_ERROR_DRIVER_NOT_LOADED;
  Mark mark = marked(1, &now);
  look_at_ns = at_ns + (S_ISDIR(now.st_mode) ? FOLDER_NS : FILE_NS);
  if (S_ISDIR(now.st_mode)) return load_folder(path, mark);
  if (mark != seen) {
    begin();
    loaded = end(path, add_file(path));
    seen = mark;
  }
  return loaded;
}

/* The last line with that key wins. */
static const char *find(const char *key) {
  size_t low = 0, high = line_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strcmp(lines[middle].key, key) <= 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 && strcmp(lines[low - 1].key, key) == 0 ? lines[low - 1].value : NULL;
}

nvmlReturn_t state_text(const char *scope, const char *key, const char *fallback,
                        char text[TEXT_SIZE]) {
  char full[256];
  snprintf(full, sizeof full, "%s%s%s", scope, *scope == '\0' ? "" : ".", key);
  pthread_mutex_lock(&lock);
  nvmlReturn_t status = load();
  const char *found = status == NVML_SUCCESS ? find(full) : NULL;
  snprintf(text, TEXT_SIZE, "%s", found != NULL ? found : fallback);
  pthread_mutex_unlock(&lock);
  if (status != NVML_SUCCESS) return status;
  while (strcmp(text, "hang") == 0) sleep_ms(1000);
  return text[0] == '!' ? atoi(text + 1) : NVML_SUCCESS;
}

nvmlReturn_t state_number(const char *scope, const char *key, unsigned long long fallback,
                          unsigned long long *number) {
  char text[TEXT_SIZE];
  char standard[32];
  snprintf(standard, sizeof standard, "%llu", fallback);
  nvmlReturn_t status = state_text(scope, key, standard, text);
  if (status == NVML_SUCCESS) *number = strtoull(text, NULL, 10);
  return status;
}

int list_item(const char *list, size_t place, char *item, size_t size) {
  for (; *list != '\0'; place--) {
    size_t length = strcspn(list, ",");
    if (place == 0) {
      snprintf(item, size, "%.*s", (int)length, list);
      return 1;
    }
    list += length + (list[length] == ',');
  }
  return 0;
}

int list_has(const char *list, const char *item) {
  size_t wanted = strlen(item);
  while (*list != '\0') {
    size_t length = strcspn(list, ",");
    if (length == wanted && strncmp(list, item, length) == 0) return 1;
    list += length + (list[length] == ',');
  }
  return 0;
}
