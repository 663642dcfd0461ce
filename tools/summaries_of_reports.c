// Writes one line into the folder $REPORTS for each error that a sanitizer finds. asan_e2e.sh preloads it: g++'s undefined-behaviour sanitizer writes its
// reports to standard error alone, whatever its option log_path says, and many processes of the tests have nobody who reads that.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void __sanitizer_report_error_summary(const char *summary) {
  char path[4096];
  const char *folder = getenv("REPORTS");
  if (folder == NULL) return;
  snprintf(path, sizeof(path), "%s/summary.%d", folder, (int)getpid());
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file < 0) return;
  if (write(file, summary, strlen(summary)) < 0 || write(file, "\n", 1) < 0) perror(path);
  close(file);
}
