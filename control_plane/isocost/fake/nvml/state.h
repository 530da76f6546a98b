/* The state of the fake NVML: one key=value a line, read again whenever it has changed. */
#ifndef ISOCOST_FAKE_NVML_STATE_H
#define ISOCOST_FAKE_NVML_STATE_H

#include <stddef.h>

typedef int nvmlReturn_t;

enum {
  NVML_SUCCESS = 0,
  NVML_ERROR_UNINITIALIZED = 1,
  NVML_ERROR_INVALID_ARGUMENT = 2,
  NVML_ERROR_NOT_SUPPORTED = 3,
  NVML_ERROR_NOT_FOUND = 6,
  NVML_ERROR_INSUFFICIENT_SIZE = 7,
  NVML_ERROR_DRIVER_NOT_LOADED = 9,
  NVML_ERROR_TIMEOUT = 10,
  NVML_ERROR_GPU_IS_LOST = 15,
  NVML_ERROR_MEMORY = 20,
  NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

/* Names the state: a file, or a folder whose files (but those that begin with a dot) are one state
 * together, their "gpus" joined in the order of their names. Without it there is no driver. */
#define STATE_VARIABLE "ISOCOST_FAKE_NVML"
/* Holds the names of as many GPUs as there can be. */
#define TEXT_SIZE 16384

/* The value of scope.key (of key where scope is empty) as text, or the fallback. A value "!15"
 * makes the call return that NVML error, "hang" makes it never return. */
nvmlReturn_t state_text(const char *scope, const char *key, const char *fallback,
                        char text[TEXT_SIZE]);

nvmlReturn_t state_number(const char *scope, const char *key, unsigned long long fallback,
                          unsigned long long *number);

/* The item at that place of a list "a,b,c": 1 if there is one. */
int list_item(const char *list, size_t place, char *item, size_t size);

/* 1 if the item is in the list. */
int list_has(const char *list, const char *item);

void sleep_ms(unsigned long long ms);

#endif
