/* Gives the process that it is preloaded into a wall clock of its own: as many nanoseconds ahead of the machine's as the file DULY_CLOCK says, eight bytes that may change at
   any time. It calls the kernel by itself and allocates nothing, for it is asked before the process's allocator is ready. What has elapsed stays as it is. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int64_t ahead(void) {
	static int64_t *volatile shared;
	if (!shared) {
		const char *path = getenv("DULY_CLOCK");
		int file = path ? syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
		if (file < 0) return 0;
		void *page = mmap(0, sizeof *shared, PROT_READ, MAP_SHARED, file, 0);
		syscall(SYS_close, file);
		if (page == MAP_FAILED) return 0;
		shared = page;
	}
	return __atomic_load_n(shared, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
	int failed = syscall(SYS_clock_gettime, clock, t);
	if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		int64_t now = t->tv_sec * INT64_C(1000000000) + t->tv_nsec + ahead();
		t->tv_sec = now / 1000000000;
		t->tv_nsec = now % 1000000000;
	}
	return failed;
}

int gettimeofday(struct timeval *t, void *zone) {
	struct timespec now;
	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *at) {
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
	if (at) *at = now.tv_sec;
	return now.tv_sec;
}
