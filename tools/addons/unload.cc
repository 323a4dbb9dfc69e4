// GCC links code into every library that calls its destructors when it is unloaded; zig does not.
// Node unloads an addon with the last worker that has it, and a destructor that is called at the
// end of the process would then lie in memory that is gone.

extern "C" {

extern void* __dso_handle __attribute__((visibility("hidden")));
void __cxa_finalize(void*);

__attribute__((destructor)) static void unload() { __cxa_finalize(&__dso_handle); }

}  // extern "C"
