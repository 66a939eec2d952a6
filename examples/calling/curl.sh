# A form needs no base64. Where the server's promise is not Expected-Tokens (which may be left out), it answers 422.
curl --fail --silent --show-error http://127.0.0.1:8000/v1/encode --header 'X-Request-Id: curl-1' \
  --form 'item=@picture.png;type=image/png;headers="Expected-Tokens: 391"' --output rows.safetensors
# Two parts: the promise, sent before the model runs, and the rows; an error would have its status in X-Status.
curl --fail --silent --show-error http://127.0.0.1:8000/v1/encode --header 'Accept: multipart/mixed' \
  --form 'item=@picture.png;type=image/png' --output parts
grep --text --only-matching '"tokens":391' parts | head --lines 1
curl --fail --silent --show-error http://127.0.0.1:8000/openapi.json --output openapi.json
