// Two modules of kernels and the functions that launch them. The fake drivers know what the
// kernels do by their names.
module attributes {gpu.container_module} {
  gpu.module @first {
    gpu.func @twice(%in: memref<100xf32>, %out: memref<100xf32>) kernel
        attributes {known_block_size = array<i32: 32, 1, 1>} {
      %block = gpu.block_id x
      %width = arith.constant 32 : index
      %thread = gpu.thread_id x
      %start = arith.muli %block, %width : index
      %i = arith.addi %start, %thread : index
      %size = arith.constant 100 : index
      %inside = arith.cmpi ult, %i, %size : index
      scf.if %inside {
        %x = memref.load %in[%i] : memref<100xf32>
        %y = arith.addf %x, %x : f32
        memref.store %y, %out[%i] : memref<100xf32>
      }
      gpu.return
    }
  }
  gpu.module @second {
    gpu.func @plus_one(%in: memref<100xf32>, %out: memref<100xf32>) kernel
        attributes {known_block_size = array<i32: 32, 1, 1>} {
      %block = gpu.block_id x
      %width = arith.constant 32 : index
      %thread = gpu.thread_id x
      %start = arith.muli %block, %width : index
      %i = arith.addi %start, %thread : index
      %size = arith.constant 100 : index
      %inside = arith.cmpi ult, %i, %size : index
      scf.if %inside {
        %one = arith.constant 1.0 : f32
        %x = memref.load %in[%i] : memref<100xf32>
        %y = arith.addf %x, %one : f32
        memref.store %y, %out[%i] : memref<100xf32>
      }
      gpu.return
    }
  }
  // out = 2 * in + 1
  func.func @forward(%in: memref<100xf32>, %out: memref<100xf32>) {
    %one = arith.constant 1 : index
    %blocks = arith.constant 4 : index
    %threads = arith.constant 32 : index
    %between = memref.alloc() : memref<100xf32>
    gpu.launch_func @first::@twice
        blocks in (%blocks, %one, %one) threads in (%threads, %one, %one)
        args(%in : memref<100xf32>, %between : memref<100xf32>)
    gpu.launch_func @second::@plus_one
        blocks in (%blocks, %one, %one) threads in (%threads, %one, %one)
        args(%between : memref<100xf32>, %out : memref<100xf32>)
    memref.dealloc %between : memref<100xf32>
    return
  }
  // out = 2 * in; %how: blocks, threads, bytes of dynamic shared memory
  func.func @launch(%in: memref<100xf32>, %out: memref<100xf32>, %how: memref<3xi64>) {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %wide_blocks = memref.load %how[%zero] : memref<3xi64>
    %wide_threads = memref.load %how[%one] : memref<3xi64>
    %wide_bytes = memref.load %how[%two] : memref<3xi64>
    %blocks = arith.index_cast %wide_blocks : i64 to index
    %threads = arith.index_cast %wide_threads : i64 to index
    %bytes = arith.trunci %wide_bytes : i64 to i32
    gpu.launch_func @first::@twice
        blocks in (%blocks, %one, %one) threads in (%threads, %one, %one)
        dynamic_shared_memory_size %bytes
        args(%in : memref<100xf32>, %out : memref<100xf32>)
    return
  }
}
