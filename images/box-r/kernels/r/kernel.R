# Extends the stock R kernel: the last value of a run is its result, and a run may have environment variables of its own.

local({
  kernel <- IRkernel:::Kernel$new(connection_file = commandArgs(TRUE)[[1]])
  executor <- kernel$executor
  send <- executor$send_response

  replace <- function(name, wrap) {
    method <- eval(call("$", quote(executor), as.name(name)))
    methods <- as.environment(executor)
    if (bindingIsLocked(name, methods)) unlockBinding(name, methods)
    assign(name, wrap(method), envir = methods)
  }

  # A value that may be the last one of the run: it is sent as display data once another message follows, otherwise as the result.
  pending <- NULL
  is_value <- FALSE
  release <- function(kind) {
    if (is.null(pending)) return(invisible())
    value <- pending
    pending <<- NULL
    content <- value$content
    if (identical(kind, "execute_result")) content$execution_count <- executor$execution_count
    send(kind, value$parent, "iopub", content)
  }
  # The stock kernel names every error ERROR, and inserts line breaks into images.
  raised <- NULL
  correct <- function(kind, content) {
    if (identical(kind, "error") && !is.null(raised)) {
      content$ename <- class(raised)[[1]]
      content$evalue <- conditionMessage(raised)
      # Removes the frame of the handler that is installed below.
      own <- grepl(".handleSimpleError(function (e)", content$traceback, fixed = TRUE)
      content$traceback <- content$traceback[!own]
    }
    for (type in grep("^image/(png|jpeg)$", names(content$data), value = TRUE)) {
      image <- content$data[[type]]
      if (is.raw(image)) image <- jsonlite::base64_enc(image)
      content$data[[type]] <- gsub("\n", "", image, fixed = TRUE)
    }
    content
  }
  replace("handle_error", function(method) function(e) {
    raised <<- e
    on.exit(raised <<- NULL)
    method(e)
  })

  executor$send_response <- function(kind, parent, socket, content) {
    content <- correct(kind, content)
    if (is_value && identical(kind, "display_data")) {
      release("display_data")
      pending <<- list(parent = parent, content = content)
      return(invisible())
    }
    release(if (identical(kind, "execute_reply")) "execute_result" else "display_data")
    send(kind, parent, socket, content)
  }
  replace("handle_value", function(method) function(obj, visible) {
    is_value <<- TRUE
    on.exit(is_value <<- FALSE)
    method(obj, visible)
  })

  replace("execute", function(method) function(request) {
    env <- unlist(request$metadata$codebox$env)
    before <- Sys.getenv(names(env), unset = NA, names = TRUE)
    on.exit({
      Sys.unsetenv(names(before)[is.na(before)])
      existing <- before[!is.na(before)]
      if (length(existing)) do.call(Sys.setenv, as.list(existing))
    })
    if (length(env)) do.call(Sys.setenv, as.list(env))
    # The stock kernel exits if it is interrupted before or after the code of a run, so only the code itself is interruptible.
    suspendInterrupts(method(request))
  })
  # The stock kernel evaluates a failing line of its own first, to count the frames that a traceback leaves out: both need the same number.
  assign("evaluate", envir = as.environment(executor), function(..., envir = new.env()) {
    guarded <- if (identical(envir, globalenv())) allowInterrupts else suspendInterrupts
    guarded(evaluate::evaluate(..., envir = envir))
  })

  # Without a terminal, this version of crayon fails to determine the colours of tracebacks.
  options(jupyter.log_level = 1L, crayon.enabled = FALSE, device = function(...) grDevices::pdf(NULL, ...))
  kernel$run()
})
