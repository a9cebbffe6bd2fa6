"""The colours of all pictures: a paradigm has one everywhere. Okabe and Ito's set, which colour-blind readers tell apart."""
BLUE, ORANGE, GREEN, PINK, SKY, RED, BROWN, GREY, YELLOW = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D31", "#5B5B5B", "#F0E442")
SERIES = [BLUE, ORANGE, GREEN, PINK, SKY, RED, BROWN, GREY]  # of what is no paradigm
PARADIGMS = {"none": GREY, "ddp": BLUE, "pdp": ORANGE, "fsdp": GREEN, "zero1": SKY, "zero2": PINK, "hsdp": RED, "data_parallel": BROWN,
             "parameter_server": YELLOW}


def of_paradigm(name):
    return PARADIGMS.get(name, GREY)
