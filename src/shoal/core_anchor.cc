// libshoal_core.so is made of the rooms' static libraries; CMake wants one source of its own.
