# The stock R kernel with what a box adds: the last value of a run is its result, and a run may have an environment of its own.

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

  # A value that may be the last one: it is sent when something follows, or as the result when nothing does.
  held <- NULL
  is_value <- FALSE
  release <- function(kind) {
    if (is.null(held)) return(invisible())
    value <- held
    held <<- NULL
    content <- value$content
    if (identical(kind, "execute_result")) content$execution_count <- executor$execution_count
    send(kind, value$parent, "iopub", content)
  }
  # The stock kernel calls every error ERROR, and puts line breaks into images.
  raised <- NULL
  mend <- function(kind, content) {
    if (identical(kind, "error") && !is.null(raised)) {
      content$ename <- class(raised)[[1]]
      content$evalue <- conditionMessage(raised)
      # The frame in which R called the handler below.
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
    content <- mend(kind, content)
    if (is_value && identical(kind, "display_data")) {
      release("display_data")
      held <<- list(parent = parent, content = content)
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
    wanted <- unlist(request$metadata$codebox$env)
    before <- Sys.getenv(names(wanted), unset = NA, names = TRUE)
    on.exit({
      Sys.unsetenv(names(before)[is.na(before)])
      known <- before[!is.na(before)]
      if (length(known)) do.call(Sys.setenv, as.list(known))
    })
    if (length(wanted)) do.call(Sys.setenv, as.list(wanted))
    method(request)
  })

  # R of this age takes colours of tracebacks from a terminal that is not there.
  options(jupyter.log_level = 1L, crayon.enabled = FALSE, device = function(...) grDevices::pdf(NULL, ...))
  kernel$run()
})
